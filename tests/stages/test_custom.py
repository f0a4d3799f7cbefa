from __future__ import annotations

import re
from pathlib import Path

import pytest

from orun import stage
from orun.core.metrics import Quantity
from orun.errors import PipelineError
from orun.pipeline.problems import render
from orun.stages.codefile import CodeFiles, parse
from orun.stages.contract import Port, Spec
from orun.stages.custom import read
from orun.stages.kind import Kind
from orun.stages.params import REQUIRED, Param, ParamType, Range
from orun.text.suggestions import Unknown

HEADER = (
    "from orun import stage, Code, Doc, Duration, FilePath, Range, Ratio, Size\n"
    "from typing import Annotated, Any, Literal, Optional, Union\n"
)


def kind(folder: Path, text: str, function: str = "f") -> Kind:
    folder.joinpath("code.py").write_text(HEADER + text, encoding="utf-8")
    return read(f"./code.py:{function}", folder, CodeFiles())


def errors_of(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages of a wrong declaration, with their columns and lines below the header."""
    monkeypatch.chdir(folder)
    with pytest.raises(PipelineError) as caught:
        kind(folder, text)
    return [
        f"{problem.position.line - 2}:{problem.position.column} {problem.message}" for problem in caught.value.problems
    ]


def test_a_mark_below_letters_is_as_long_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as caught:
        kind(tmp_path, "def f(context, größe): ...\n")
    (problem,) = caught.value.problems
    assert (problem.position.column, problem.width) == (16, len("größe"))


def test_a_line_is_shown_as_python_counts_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form feed, as old files have between their parts, ends none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as caught:
        kind(tmp_path, "A = 1\r\n\x0c\r\nB = '\u2028'\ndef f(context, größe): ...\n")
    (problem,) = caught.value.problems
    assert problem.source == "def f(context, größe): ..."


def test_the_decorator_may_stand_without_parentheses(tmp_path: Path) -> None:
    def function(_context: object) -> dict[str, float]:
        return {"n": 1.0}

    assert stage(function) is stage()(function) is function
    assert (
        kind(tmp_path, "@stage\ndef f(context): ...\n").spec == kind(tmp_path, "@stage()\ndef f(context): ...\n").spec
    )


def test_a_decorated_function(tmp_path: Path) -> None:
    declared = kind(
        tmp_path,
        '''
@stage(inputs={"model": "onnx", "data": "dataset"}, output="engine", tools=["onnx"], interface="changed",
       stage_class="device", metrics=("a", "b"))
def f(context, *, amount: Annotated[Ratio, Doc("How much."), Range(0, high=1)], level: int = 3):
    """Do something.

    Args:
        context: what it may touch.
        level: how hard it tries,
            over several lines.

    Returns:
        level: not this.
    """
    raise RuntimeError("it is not run")
raise RuntimeError("nor is the file")
''',
    )
    assert (declared.name, declared.origin, declared.entry) == ("./code.py:f", "file", "./code.py:f")
    assert declared.summary == "Do something."
    assert declared.spec == Spec(
        inputs={"model": Port(("onnx",), ""), "data": Port(("dataset",), "")},
        output="engine",
        tools=("onnx",),
        interface="changed",
        stage_class="device",
        metrics={"a": Quantity(), "b": Quantity()},
    )
    assert declared.params == (
        Param("amount", ParamType("ratio", range=Range(0, 1)), REQUIRED, "How much."),
        Param("level", ParamType("int"), 3, "how hard it tries, over several lines."),
    )
    assert list(declared.metrics({}) or ()) == ["a", "b"]


def test_an_undecorated_function(tmp_path: Path) -> None:
    declared = kind(tmp_path, "def f(context): ...\n")
    assert declared.spec == Spec(inputs={"model": Port(("onnx",), "")}, metrics=None)
    assert declared.params == ()
    assert declared.doc == "The function f of code.py."
    assert declared.metrics({}) is None


def test_a_function_without_inputs(tmp_path: Path) -> None:
    assert kind(tmp_path, "@stage(inputs={})\ndef f(context): ...\n").spec.inputs == {}


@pytest.mark.parametrize("decorator", ["@stage", "@stage()", "@orun.stage()", "@orun.stages.contract.stage()"])
def test_the_decorator_by_any_of_its_names(decorator: str, tmp_path: Path) -> None:
    assert kind(tmp_path, f"import orun\n{decorator}\nasync def f(context): ...\n").name == "./code.py:f"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("bool", ParamType("bool")),
        ("orun.Code", ParamType("code")),
        ("FilePath | None", ParamType("path", optional=True)),
        ("Optional[Size]", ParamType("size", optional=True)),
        ("'int | None'", ParamType("int", optional=True)),
        ("int | str", ParamType("union", items=(ParamType("int"), ParamType("str")))),
        (
            "Union[int, str, float, None]",
            ParamType("union", optional=True, items=(ParamType("int"), ParamType("str"), ParamType("float"))),
        ),
        ("int | str | None", ParamType("union", optional=True, items=(ParamType("int"), ParamType("str")))),
        ("list[Duration]", ParamType("list", items=(ParamType("duration"),))),
        ("dict[str, list[int]]", ParamType("map", items=(ParamType("list", items=(ParamType("int"),)),))),
        ("Literal['a', 1, True]", ParamType("literal", choices=("a", 1, True))),
        ("Any", ParamType("any")),
        ("Annotated[int, Range(low=2)]", ParamType("int", range=Range(2))),
    ],
)
def test_annotations(annotation: str, expected: ParamType, tmp_path: Path) -> None:
    (param,) = kind(tmp_path, f"def f(context, *, x: {annotation}): ...\n").params
    assert param.type == expected


def test_defaults_are_plain_values(tmp_path: Path) -> None:
    parameters = "a: Duration = '2min', b: Size = '1kB', c: Ratio = 1, d: list[int] = [1], e: float = 2"
    text = f"def f(context, *, {parameters}): ...\n"
    assert [param.default for param in kind(tmp_path, text).params] == [120.0, 1000, 1.0, [1], 2]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("def f(): ...", ["1:1 f takes no context"]),
        (
            "def f(context, a, *b, c: int, **d): ...",
            [
                "1:16 'a' of f is not a keyword-only argument, so it is no parameter",
                "1:20 'b' of f is not a keyword-only argument, so it is no parameter",
                "1:33 'd' of f is not a keyword-only argument, so it is no parameter",
            ],
        ),
        ("def f(context, *, é=1): ...", ["1:19 the parameter 'é' of f has no type"]),
        (
            "def f(context, *, é: int, x: set[int]): ...",
            ["1:30 the parameter 'x': a pipeline file cannot write a set[int]"],
        ),
        ("def f(context, *, x: None): ...", ["1:22 the parameter 'x': a pipeline file cannot write a None"]),
        (
            "def f(context, *, x: dict[int, str]): ...",
            ["1:22 the parameter 'x': a pipeline file cannot write a dict[int, str]"],
        ),
        ("def f(context, *, x: 'int |'): ...", ["1:22 the parameter 'x': 'int |' is not an annotation"]),
        (
            "def f(context, *, x: Literal[A]): ...",
            ["1:30 the parameter 'x': A is not a literal, and the file is read without being run"],
        ),
        (
            "def f(context, *, x: Annotated[int, Range(1, 2, 3)]): ...",
            ["1:37 the parameter 'x': Range takes a lowest and a highest value"],
        ),
        ("def f(context, *, x: int = A): ...", ["1:28 A is not a literal"]),
        ("def f(context, *, x: bool = 1): ...", ["1:29 1 is not of the type bool"]),
        ("def f(context, *, x: int = None): ...", ["1:28 None is the default of a parameter that cannot be None"]),
        ("@stage('onnx')\ndef f(context): ...", ["1:8 @stage takes arguments by name"]),
        ("@stage(tools='onnx')\ndef f(context): ...", ["1:14 tools of @stage cannot be 'onnx'"]),
        ("@stage(**more)\ndef f(context): ...", ["1:8 @stage has no argument None"]),
    ],
)
def test_what_cannot_be_read(text: str, messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert errors_of(tmp_path, text + "\n", monkeypatch) == messages


def test_a_misspelt_argument_of_the_decorator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as caught:
        kind(tmp_path, '@stage(outputs="files", colour=1)\ndef f(context): ...\n')
    assert [(problem.message, problem.suggestion) for problem in caught.value.problems] == [
        ("@stage has no argument 'outputs'", "output"),
        ("@stage has no argument 'colour'", ""),
    ]


def test_a_function_that_is_not_defined_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as caught:
        kind(tmp_path, "from functools import partial\nf = partial(print)\n")
    assert str(caught.value) == (
        "'f' in ./code.py is not defined by `def`\n"
        "  expected a function that is defined in that file, so that its parameters can be read without running it"
    )


def test_no_such_file(tmp_path: Path) -> None:
    tmp_path.joinpath("code.py").touch()
    with pytest.raises(Unknown) as caught:
        read("./cod.py:f", tmp_path, CodeFiles())
    assert str(caught.value) == "there is no code file './cod.py'\n  did you mean ./code.py:f?"
    with pytest.raises(Unknown) as caught:
        read("./folder/code.py:f", tmp_path, CodeFiles())
    assert str(caught.value) == (
        "there is no code file './folder/code.py'\n  expected the path of a Python file, relative to the pipeline file"
    )


def test_no_such_function(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as caught:
        kind(tmp_path, "def prune(context): ...\n", "prun")
    assert str(caught.value) == "code.py has no function 'prun'\n  did you mean prune?"


def test_a_function_counts_before_a_class_of_the_same_letters(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as caught:
        kind(tmp_path, "def resnet(context): ...\nclass ResNet: ...\n", "resnt")
    assert str(caught.value) == "code.py has no function 'resnt'\n  did you mean resnet?"


NAMES = """
import a.b, c as d
from e import f
if True:
    def g(): ...
else:
    class H: ...
try:
    i = j, [k] = 1, [2]
except ValueError as error:
    l: int = 1
finally:
    with open("x") as file:
        m = 1
def outer():
    inner = 1
"""


def test_the_names_of_a_file(tmp_path: Path) -> None:
    tmp_path.joinpath("code.py").write_text(NAMES, encoding="utf-8")
    file = parse(tmp_path / "code.py")
    assert file.list_names() == ("g", "outer", "a", "d", "f", "H", "i", "j", "k", "l", "m")
    file.require("m")
    with pytest.raises(Unknown, match="has no function 'inner'"):
        file.require("inner")


def test_a_star_import_may_bring_anything(tmp_path: Path) -> None:
    tmp_path.joinpath("code.py").write_text("from other import *\n", encoding="utf-8")
    parse(tmp_path / "code.py").require("anything")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"def f(:\n",
            "code.py:1:7: error: Python cannot parse this: invalid syntax\n    1 | def f(:\n      |       ^",
        ),
        (b"x\x00\n", "code.py:1:1: error: Python cannot parse this: source code string cannot contain null bytes"),
        (
            b"-" * 100_000 + b"1\n",
            "code.py:1:1: error: Python cannot parse this file: its expressions are nested too deeply",
        ),
    ],
)
def test_what_is_not_python(data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("code.py").write_bytes(data)
    with pytest.raises(PipelineError) as caught:
        parse(tmp_path / "code.py")
    assert render(caught.value.problems) == message


def test_a_mistake_in_a_long_line_is_shown_where_it_is(tmp_path: Path) -> None:
    tmp_path.joinpath("code.py").write_bytes(b"(" * 5000)
    with pytest.raises(PipelineError) as caught:
        parse(tmp_path / "code.py")
    (problem,) = caught.value.problems
    assert (problem.position.column, problem.message) == (201, "Python cannot parse this: too many nested parentheses")


def test_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("code.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(PipelineError) as caught:
        parse(tmp_path / "code.py")
    message = r"code\.py:1:[568]: error: Python cannot parse this: .*xff"  # each version of Python in its own words
    assert re.match(message, render(caught.value.problems))


def test_an_encoding_of_its_own_and_a_thousand_branches(tmp_path: Path) -> None:
    branches = "".join(f"elif x == {number}:\n    def f{number}(): ...\n" for number in range(1, 1000))
    text = f"# -*- coding: latin-1 -*-\nx = 'é'\nif x == 0:\n    pass\n{branches}"
    tmp_path.joinpath("code.py").write_bytes(text.encode("latin-1"))
    parse(tmp_path / "code.py").require("f999")
