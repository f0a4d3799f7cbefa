from __future__ import annotations

import pytest

from orun.pipeline.scalars import Value, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1.5", 1.5),
        ("1.10", 1.1),
        ("12", 12),
        ("-7", -7),
        ("014", 14),
        ("0o14", 12),
        ("0x1F", 31),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_yaml_1_2_reads_a_value(text: str, value: Value) -> None:
    resolved = resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize("text", ["on", "off", "yes", "no", "12:30", "1_7", "0b1", "2026-11-01", "tRue", "-", ".", "+"])
def test_yaml_1_2_reads_text(text: str) -> None:
    assert resolve(text) == text


@pytest.mark.parametrize("text", [".nan", ".inf", "-.INF"])
def test_a_number_must_be_finite(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is not a finite number"):
        resolve(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1e400"])
def test_a_number_beyond_all_doubles_is_too_large(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is too large"):
        resolve(text)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="a number of 5000 digits is too large"):
        resolve("1" * 5000)
