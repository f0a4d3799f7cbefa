"""Differences of two keys, in words that show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from orun.core.source_location import Position
from orun.pipeline.model import Stage
from orun.planning.key_diff import list_key_changes
from tests.facts import components, describe_reasons

LATENCY = Stage("latency", "measure/latency", Position("bert.yaml", 1, 1))
TARGET = {"providers": [["CPUExecutionProvider", {}]], "session": {"execution_mode": "parallel", "threads": 4}}
LONG = "weights of the model that was trained in spring, with the second data set, seed "


MODEL = {"kind": "check/model", "stage code": "1", "parameter max_ir": "null", "tool onnx": "onnx 1.23.2", "seed": "0"}
MINE = {"kind": "check", "file of uses": "own.py", "content of uses": "2", "python of your code": "3.11.7", "seed": "0"}


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return list(describe_reasons(list_key_changes(LATENCY, components(then), components(now))))


@pytest.mark.parametrize(
    ("then", "now", "sentences"),
    [
        (MODEL, MINE, ["uses: check/model -> own.py:check"]),
        (MINE, MODEL | {"seed": "1"}, ["uses: own.py:check -> check/model", "seed: 0 -> 1"]),
        (MINE, MINE | {"file of uses": "b/own.py"}, ["uses: own.py:check -> b/own.py:check"]),
        (MINE, MINE | {"kind": "other", "input x": "3"}, ["uses: own.py:check -> own.py:other", "input x changed"]),
        (MODEL, MODEL | {"tool onnx": "onnx 1.24.0"}, ["tool onnx: onnx 1.23.2 -> onnx 1.24.0"]),
    ],
)
def test_what_another_kind_brings_with_it_is_no_reason(
    then: dict[str, str], now: dict[str, str], sentences: list[str]
) -> None:
    assert changes(then, now) == sentences


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        (1, 1.0, "with: 1 -> 1.0"),
        (TARGET, TARGET | {"session": {"execution_mode": "parallel"}}, "with.session.threads: 4 -> not set"),
        (
            TARGET,
            TARGET | {"providers": [["CUDAExecutionProvider", {}]], "session": {"threads": 1}},
            (
                'with.providers[0][0]: "CPUExecutionProvider" -> "CUDAExecutionProvider", '
                'with.session.execution_mode: "parallel" -> not set, with.session.threads: 4 -> 1'
            ),
        ),
        (
            dict.fromkeys("abcde", LONG),
            dict.fromkeys("abcde", ""),
            (
                'with.a: "weights of the model that was trained in spring, with th... -> "", '
                'with.b: "weights of the model that was trained in spring, with th... -> "", '
                'with.c: "weights of the model that was trained in spring, with th... -> "" and 2 more'
            ),
        ),
        (TARGET, dict(reversed(TARGET.items())), "with is in another order"),
        (f"{LONG}1", f"{LONG}2", 'with: ...a set, seed 1" -> ...a set, seed 2"'),
        (
            LONG,
            [LONG],
            (
                'with: "weights of the model that was trained in spring, with th... -> '
                '["weights of the model that was trained in spring, with t...'
            ),
        ),
    ],
)
def test_long_values_are_told_by_where_they_differ(old: Any, new: Any, sentences: str) -> None:
    (sentence,) = changes({"with": json.dumps(old)}, {"with": json.dumps(new)})
    assert sentence == sentences


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        ("unset", "4f", "environment variable MODE changed"),
        (None, "4f", "environment variable MODE changed"),
        (None, "unset", "environment variable MODE counts, and is not set"),
        ("unset", None, "environment variable MODE no longer counts, and was not set"),
    ],
)
def test_an_environment_variable_that_changed_counts_or_no_longer_counts_is_told(
    old: str | None, new: str | None, sentences: str
) -> None:
    then, now = ({"kind": "k"} | ({"environment MODE": name} if name else {}) for name in (old, new))
    assert changes(then, now) == [sentences]


@pytest.mark.parametrize(
    ("new", "sentences"),
    [
        ("int8", "without accuracy[method=static], static; with accuracy[method=int8], int8"),
        (None, "without accuracy[method=static], static"),
    ],
)
def test_stages_before_it_are_told_by_the_names_that_differ(new: str | None, sentences: str) -> None:
    """Only the names that differ; that their own parts are new in the key goes without saying."""

    def parts(name: str | None) -> dict[str, str]:
        named = [] if name is None else [f"accuracy[method={name}]", name]
        names = ["take", "export", "accuracy[method=dynamic,on=one]", *named, "size"]
        own = {f"{part} of {name}": f"{part} {name}" for name in names for part in ("history", "verdicts")}
        return {"history": json.dumps(names)} | own

    assert changes(parts("static"), parts(new)) == [f"history: {sentences}"]


def test_stages_before_it_in_another_order_are_told() -> None:
    names = ["take", "export", "accuracy[method=dynamic,on=one]", "accuracy[method=dynamic,on=two]"]
    then, now = ({"history": json.dumps(order), "verdicts of take": order[0]} for order in (names, names[::-1]))
    sentences = ["history is in another order", "the verdicts of take changed"]
    assert changes(then, now) == sentences


def test_a_part_that_is_nested_too_deep_is_shown_as_text() -> None:
    """The key is of a record that others may have written."""
    deep = "[" * 200_000
    (change,) = changes({"parameter x": f"{deep}1"}, {"parameter x": f"{deep}2"})
    assert change.startswith("parameter x: ")
    assert len(change) < 500
