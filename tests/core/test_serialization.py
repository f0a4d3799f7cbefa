from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from orun.core.serialization import (
    MAX_DEPTH,
    Record,
    decode,
    encode,
    field,
    from_json,
    parse_foreign_json,
    replace,
    to_json,
)


class Part(Record, frozen=True):
    name: str
    weight: float = 1.0


class Whole(Record, frozen=True):
    parts: tuple[Part, ...]
    pair: tuple[str, int] = ("", 0)
    by_name: Mapping[str, Part] = field(default_factory=dict)
    best: Part | None = None
    file: Path = Path()
    anything: Any = None
    either: int | str = 0
    mood: Literal["good", "bad"] = "good"


@dataclass(frozen=True)
class Params:
    names: tuple[str, ...]
    ratio: float = 0.5


WHOLE = Whole(
    parts=(Part("a"), Part("b", 2.5)),
    pair=("x", 3),
    by_name={"c": Part("c", 0.0)},
    best=Part("b"),
    file=Path("/tmp/model.onnx"),  # noqa: S108 - never opened
    anything={"k": [1, None, True]},
    either="many",
)


def test_a_record_comes_back_from_json() -> None:
    assert decode(Whole, from_json(to_json(encode(WHOLE)))) == WHOLE


def test_defaults_are_left_out() -> None:
    assert encode(Whole(parts=(Part("a"),))) == {"parts": [{"name": "a"}]}


def test_a_record_without_a_newer_field_reads_as_its_default() -> None:
    assert decode(Whole, {"parts": []}) == Whole(parts=())


def test_none_where_a_value_may_be_missing() -> None:
    assert decode(Whole, {"parts": [], "best": None}).best is None


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_a_number_that_is_not_finite_comes_back(number: float) -> None:
    assert encode(Part("a", number)) == {"name": "a", "weight": str(number)}
    assert decode(Part, encode(Part("a", number))) == Part("a", number)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "Expected `object`, got `array`"),
        ({"parts": [{"weight": 1.0}]}, "Object missing required field `name` - at `$.parts[0]`"),
        ({"parts": [], "more": 1}, "Object contains unknown field `more`"),
        ({"parts": [], "pair": ["x"]}, "Expected `array` of length 2, got 1 - at `$.pair`"),
        ({"parts": [{"name": 3}]}, "Expected `str`, got `int` - at `$.parts[0].name`"),
        ({"parts": [], "mood": "odd"}, "Invalid enum value 'odd' - at `$.mood`"),
        ({"parts": [{"name": "a", "weight": "1.5"}]}, "Expected `float`, got `str` - at `$.parts[0].weight`"),
        ({"parts": [{"name": "a", "weight": "Infinity"}]}, "Expected `float`, got `str` - at `$.parts[0].weight`"),
        (
            {"parts": [{"name": "a", "weight": "inf"}], "pair": ["x", "3"]},
            "Expected `float`, got `str` - at `$.parts[0].weight`",
        ),
    ],
)
def test_data_of_another_shape_is_refused(data: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        decode(Whole, data)


def test_a_type_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a record cannot hold a <class 'complex'>$"):
        decode(complex, "1j")


def test_the_parameters_of_a_stage_are_encoded_too() -> None:
    assert encode({"params": Params(("a",))}) == {"params": {"names": ["a"]}}


def test_a_copy_with_other_values() -> None:
    assert replace(Part("a"), weight=2.0) == Part("a", 2.0)
    assert replace(Params(("a",)), ratio=1.0) == Params(("a",), 1.0)


def test_a_name_that_is_no_utf8_comes_back() -> None:
    name = os.fsdecode(b"caf\xe9.onnx")
    assert to_json({"a": "é"}) == '{"a":"é"}'.encode()
    assert to_json([name]) == rb'["caf\udce9.onnx"]'
    assert from_json(to_json([name])) == [name]


def test_a_text_that_is_no_json() -> None:
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        from_json(b"[1, oh]")


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"a":' * 200_000, b"[NaN," + b"[" * 200_000])
def test_a_text_that_is_nested_too_deep(text: bytes) -> None:
    """Both decoders raise RecursionError, each at a depth of its own."""
    for read in (from_json, parse_foreign_json):
        with pytest.raises(ValueError, match=r"^its lists and objects are nested too deep$"):
            read(text)


def test_what_others_wrote_is_nested_no_deeper_than_code_can_follow() -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        parse_foreign_json(opened * MAX_DEPTH + b"1" + closed * MAX_DEPTH)
        with pytest.raises(ValueError, match=r"^its lists and objects are nested too deep$"):
            parse_foreign_json(opened * (MAX_DEPTH + 1) + b"1" + closed * (MAX_DEPTH + 1))
