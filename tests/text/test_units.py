from __future__ import annotations

import math

import pytest

from orun.core.metrics import Estimate, Unit
from orun.text.units import (
    parse_duration,
    parse_ratio,
    parse_size,
    respell,
    show,
    show_amount,
    show_change,
    show_in_full,
    show_interval,
    split,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("12 ms", 0.012),
        ("1.5s", 1.5),
        ("2min", 120.0),
        ("1h", 3600.0),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("7ns", 7e-9),
        ("3", 3.0),
        (3, 3.0),
        (0.25, 0.25),
        ("1e-3", 0.001),
        ("-1s", -1.0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("300MB", 300_000_000),
        ("22.9MB", 22_900_000),
        ("1.5GiB", 1_610_612_736),
        ("4 KiB", 4096),
        ("5kB", 5000),
        ("5KB", 5000),
        ("12B", 12),
        (12, 12),
    ],
)
def test_a_size_is_read_in_bytes(text: str | float, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "ratio"), [("5%", 0.05), ("97.3%", 0.973), ("0.05", 0.05), (0.05, 0.05), (1, 1.0)])
def test_a_proportion_is_read(text: str | float, ratio: float) -> None:
    assert parse_ratio(text) == ratio


@pytest.mark.parametrize("text", ["12 parsecs", "ms", "", "12ms later", "1e999", "nan", "300MB", "5%"])
def test_what_is_no_duration_is_told_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        parse_duration(text)
    assert str(caught.value) == (
        f"{text!r} is not a duration such as 12ms, 1.5s, 2min or 1h (a plain number is in seconds)"
    )


def test_what_is_no_size_is_told_the_forms() -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        parse_size("300mb")
    assert str(caught.value) == "'300mb' is not a size such as 300MB, 22.9kB or 1.5GiB (a plain number is in bytes)"


def test_what_is_no_ratio_is_told_the_forms() -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        parse_ratio("5ms")
    assert str(caught.value) == "'5ms' is not a proportion such as 5% or 0.05"


@pytest.mark.parametrize(
    ("old", "new", "unit", "text"),
    [
        (0.008, 0.0084, "s", "+5.0 %"),
        (0.973, 0.9725, "ratio", "-0.05 points"),
        (0.5, 0.62, "ratio", "+12 points"),
        (0.0, 0.03, "ratio", "+3 points"),
        (0.4, 0.4, "ratio", "+0 points"),
        (0.0, 3.0, "", ""),
        (-10.0, -12.0, "", ""),  # which is lower, and 1.2 times as much
        (math.nan, 0.5, "ratio", ""),
        (1.0, math.inf, "s", ""),
        (None, 1.0, "s", ""),
        (90.40, 90.40, "B", "+0.0 %"),
        (90.40, 90.39, "B", "-0.01 %"),
        (0.99968, 0.9993, "", "-0.04 %"),
        (10000.0, 10003.0, "", "+0.03 %"),
    ],
)
def test_how_far_a_figure_moved(old: float | None, new: float | None, unit: Unit, text: str) -> None:
    assert show_change(old, new, unit) == text


def test_split_leaves_the_unit_open() -> None:
    assert split("1.5x") == (1.5, "x")
    assert split("12") == (12.0, "")
    assert split("fast") is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (0.00804, "s", "8.04 ms"),
        (2.0, "s", "2 s"),
        (0.00099996, "s", "1 ms"),
        (59.4, "s", "59.4 s"),
        (59.97, "s", "1 min 0 s"),
        (125, "s", "2 min 5 s"),
        (3725, "s", "1 h 2 min"),
        (-125, "s", "-2 min 5 s"),
        (0, "s", "0 s"),
        (22_900_000, "B", "22.9 MB"),
        (999_600, "B", "1 MB"),
        (512, "B", "512 B"),
        (0, "B", "0 B"),
        (0.973, "ratio", "97.3 %"),
        (0.9995, "ratio", "99.95 %"),  # not 100 %
        (0.99999999, "ratio", "100 %"),
        (1.0, "ratio", "100 %"),
        (0.05, "ratio", "5 %"),
        (0.00012, "ratio", "0.012 %"),
        (1.5, "x", "1.50x"),
        (81.23, "1/s", "81.2/s"),
        (0.0213, "J", "21.3 mJ"),
        (2.5e-7, "J", "0.25 µJ"),
        (1500.0, "J", "1.5 kJ"),
        (0.0, "J", "0 J"),
        (0.99341, "", "0.9934"),
        (0.999963, "", "0.99996"),  # not 1
        (0.99999994, "", "1"),  # as much as float32 tells
        (1, "", "1"),
        (123456, "", "123456"),
        (0.0000012, "", "1.200e-06"),
        (1e15, "", "1.000e+15"),
        (999e12, "B", "999 TB"),
        (1e300, "B", "1.00e+288 TB"),
        (-1e300, "s", "-1.00e+300 s"),
        (1e16, "x", "1.00e+16x"),
        (1e308, "1/s", "1.00e+308/s"),
        (1e300, "ratio", "1.00e+302 %"),
        (-1e308, "ratio", "-1.00e+308x"),  # as percent it would be too large for a number
        (5e-324, "s", "4.94e-315 ns"),
        (float("nan"), "s", "nan"),
        (float("inf"), "B", "inf"),
    ],
)
def test_a_figure_is_shown_in_three_digits_and_a_fitting_unit(value: float, unit: Unit, text: str) -> None:
    assert show(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0504138825, "ratio", "5.04138825 %"),
        (0.01234567891, "s", "12.3456789 ms"),
        (83.4567891, "s", "83.4567891 s"),
        (25_000_001, "B", "25.000001 MB"),
        (0.02130001, "J", "21.30001 mJ"),
        (1.499999, "x", "1.499999x"),
        (89.9999, "1/s", "89.9999/s"),
        (0.96999, "", "0.96999"),
    ],
)
def test_a_figure_in_full_has_all_its_digits(value: float, unit: Unit, text: str) -> None:
    assert show_in_full(value, unit) == text


def test_a_proportion_is_shown_as_its_threshold_is_written() -> None:
    assert show_amount(0.981, "ratio", "97%") == "98.1 %"
    assert show_amount(0.981, "ratio", "0.97") == "0.981"
    assert show_amount(0.0123, "s", "12ms") == "12.3 ms"
    assert show_interval(Estimate(0.98, 0.97, 0.99), "ratio", "0.97") == "0.97 to 0.99"
    assert show_interval(None, "ratio") == ""


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.01, 0.02, "-1 % to 2 %"),
        (0.01, math.inf, "1 % and up"),
        (-math.inf, 0.02, "2 % and down"),
        (-math.inf, math.inf, "unknown"),
    ],
)
def test_an_interval_may_be_open(low: float, high: float, text: str) -> None:
    assert show_interval(Estimate(0.01, low, high), "ratio") == text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2mb", "2MB"),
        ("2M", "2MB"),
        ("2m", "2min"),
        ("1.5 Gigabytes", "1.5 GB"),
        ("20sec", "20s"),
        ("5 percent", "5 %"),
        ("12MS", "12ms"),
        ("12ms", ""),
        ("12", ""),
        ("12 parsecs", ""),
        ("many", ""),
    ],
)
def test_a_unit_as_people_spell_it(text: str, meant: str) -> None:
    assert respell(text) == meant
