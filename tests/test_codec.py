from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orun.codec import decode, encode


@dataclass(frozen=True)
class Part:
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Box:
    inside: tuple[Part | Box, ...]


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    pair: tuple[str, int] = ("", 0)
    by_name: Mapping[str, Part] = field(default_factory=dict)
    best: Part | None = None
    file: Path = Path()
    anything: Any = None
    either: int | str = 0


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
    assert decode(Whole, json.loads(json.dumps(encode(WHOLE)))) == WHOLE


def test_records_that_hold_one_another_are_told_apart_by_their_fields() -> None:
    box = Box((Part("a"), Box((Part("b", 2.5),))))
    assert decode(Box, json.loads(json.dumps(encode(box)))) == box
    with pytest.raises(TypeError, match=r"^no Part or Box has the fields name, inside$"):
        decode(Box, {"inside": [{"name": "a", "inside": []}]})


def test_defaults_are_left_out() -> None:
    assert encode(Whole(parts=(Part("a"),))) == {"parts": [{"name": "a"}]}


def test_a_record_without_a_newer_field_reads_as_its_default() -> None:
    assert decode(Whole, {"parts": []}) == Whole(parts=())


def test_none_where_a_value_may_be_missing() -> None:
    assert decode(Whole, {"parts": [], "best": None}).best is None


@pytest.mark.parametrize("data", [{"parts": [{"weight": 1.0}]}, {"parts": [], "more": 1}, {"parts": [], "pair": ["x"]}])
def test_data_of_another_shape_is_refused(data: Any) -> None:
    with pytest.raises((TypeError, KeyError, ValueError)):
        decode(Whole, data)


def test_a_type_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a record cannot hold a <class 'bytes'>"):
        decode(bytes, b"")
