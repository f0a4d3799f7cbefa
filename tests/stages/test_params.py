from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from orun.stages.params import (
    REQUIRED,
    Code,
    Doc,
    Duration,
    FilePath,
    Param,
    ParamType,
    Range,
    Ratio,
    Size,
    TargetName,
    build,
    list_params,
)

SECONDS = Duration(1.5)


@dataclass(frozen=True)
class Axis:
    shape: list[int | str]
    fill: Annotated[Literal["random", "mask"], Doc("How it is filled.")] = "random"


@dataclass(frozen=True)
class Params:
    model: Annotated[Code, Doc("Makes the model.")]
    inputs: dict[str, Axis]
    level: Annotated[int, Range(1, 9)] = 3
    path: FilePath | None = None
    target: TargetName | None = None
    time: Annotated[Duration, Range(0)] = SECONDS
    memory: Size | None = None
    share: Ratio | None = None
    extra: Any = None
    names: list[str] = field(default_factory=list)


def test_declarations_are_read_from_the_annotations() -> None:
    assert list_params(Params) == (
        Param("model", ParamType("code"), REQUIRED, "Makes the model."),
        Param(
            "inputs",
            ParamType(
                "map",
                items=(
                    ParamType(
                        "object",
                        fields=(
                            Param(
                                "shape",
                                ParamType(
                                    "list", items=(ParamType("union", items=(ParamType("int"), ParamType("str"))),)
                                ),
                                REQUIRED,
                                "",
                            ),
                            Param(
                                "fill",
                                ParamType("literal", choices=("random", "mask")),
                                "random",
                                "How it is filled.",
                            ),
                        ),
                    ),
                ),
            ),
            REQUIRED,
            "",
        ),
        Param("level", ParamType("int", range=Range(1, 9)), 3, ""),
        Param("path", ParamType("path", optional=True), None, ""),
        Param("target", ParamType("target", optional=True), None, ""),
        Param("time", ParamType("duration", range=Range(0)), 1.5, ""),
        Param("memory", ParamType("size", optional=True), None, ""),
        Param("share", ParamType("ratio", optional=True), None, ""),
        Param("extra", ParamType("any"), None, ""),
        Param("names", ParamType("list", items=(ParamType("str"),)), [], ""),
    )


def test_plain_values_become_the_classes_again() -> None:
    values = {"model": "m.py:load", "inputs": {"x": {"shape": [1, "n"], "fill": "mask"}}, "path": None, "names": ["a"]}
    assert build(Params, values) == Params(Code("m.py:load"), {"x": Axis([1, "n"], "mask")}, names=["a"])


@dataclass(frozen=True)
class Unwritable:
    shape: tuple[int, int]


def test_a_type_that_no_file_can_write_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a pipeline file cannot write a tuple\[int, int\]"):
        list_params(Unwritable)
