"""`orun test`: a custom stage on a tiny model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import CommandLine, steady

CODE = '''\
import time

import orun


@orun.stage(inputs={"report": "files"}, output="files", metrics=["lines"])
def count(context: orun.Context, *, factor: int = 1) -> dict[str, orun.Metric]:
    """Count lines."""
    lines = sum(len(path.read_text().splitlines()) for path in context.inputs["report"].iterdir())
    (context.output / "lines.txt").write_text(str(lines))
    return {"lines": orun.Metric(lines * factor, unit="" if factor == 1 else "lines", better="lower")}


@orun.stage(inputs={}, output="files", metrics=["size"])
def stamp(context: orun.Context) -> None:
    """Write the time."""
    (context.output / "time.txt").write_text(str(time.time_ns()))


@orun.stage(inputs={}, output="files")
def clock(context: orun.Context) -> None:
    """Write the time."""
    (context.output / "time.txt").write_text(str(time.time_ns()))
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(CODE)
    (tmp_path / "three.txt").write_text("1\n2\n3\n")
    return tmp_path


def test_the_template_of_a_stage_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine) -> None:
    monkeypatch.chdir(tmp_path)
    assert orun("init", "--stage", "sub.py:measure_it").code == 0
    tried = orun("test", "./sub.py:measure_it")
    assert tried.code == 0, tried.err
    assert tried.out == (
        "metric nodes: 2\nmetric weights: 146 B\nmeasure_it: identical, 266 B\n./sub.py:measure_it works\n"
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["sub.py"]


def test_an_input_of_files(folder: Path, orun: CommandLine) -> None:
    tried = orun("test", "./ops.py:count", "--input", "report=three.txt")
    assert (tried.code, tried.out) == (0, "metric lines: 3\ncount: identical, 1 B\n./ops.py:count works\n")
    refused = orun("test", "./ops.py:count")
    assert (refused.code, refused.err) == (
        2,
        (
            "error: input 'report' of ./ops.py:count takes files, which cannot be made up\n"
            "  hint: name a file or a folder: orun test ./ops.py:count --input report=PATH\n"
        ),
    )
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["ops.py", "three.txt"]


@pytest.mark.usefixtures("folder")
def test_a_metric_of_an_unknown_unit(orun: CommandLine) -> None:
    failed = orun("test", "./ops.py:count", "--input", "report=three.txt", "--set", "factor=2")
    assert failed.code == 3
    assert failed.err.endswith(
        "error: ./ops.py:count: `count` returned an invalid metric 'lines': unknown unit 'lines' "
        "(allowed: s, B, J, ratio, x, 1/s, or empty)\n"
        "  hint: Return a mapping of names to finite numbers or orun.Metric\n"
    )


@pytest.mark.usefixtures("folder")
def test_a_stage_that_breaks_its_declaration(orun: CommandLine) -> None:
    missing = orun("test", "./ops.py:stamp")
    assert missing.code == 3
    assert missing.err.endswith(
        "error: ./ops.py:stamp: stamp did not return 'size'\n"
        "  it declares the metrics size, and returned none\n"
        "  hint: Return each of them, or take it out of `metrics` of @orun.stage\n"
    )
    differs = orun("test", "./ops.py:clock")
    assert (differs.code, steady(differs.out)) == (
        1,
        (
            "clock: differs\n  time.txt: other bytes, 19 B each\n"
            "./ops.py:clock is not deterministic: seed random choices with context.seed, sort what has no order, "
            "write no times or paths; or declare deterministic=False\n"
        ),
    )
    document = json.loads(orun("test", "./ops.py:clock", "--json").out)
    assert (document["good"], document["rebuilt"]["verdict"]) == (False, "differs")


def test_names_of_files_are_shown_as_they_are(folder: Path, orun: CommandLine) -> None:
    size = "'x' * int(time.time() * 100 % 100_000)"  # another one in each build
    text = CODE.replace("time.txt", "stored.txt").replace("str(time.time_ns())", size)
    (folder / "ops.py").write_text(text)
    lines = orun("test", "./ops.py:clock").out.splitlines()
    assert lines[0] == "clock: differs"
    assert re.fullmatch(r"  stored\.txt: [\d.]+ k?B first, [\d.]+ k?B second", lines[1])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ops"], ["'ops' is not a custom stage", "expected file.py:function", "hint: orun test ./ops.py:count"]),
        (["./ops.py:count", "--input", "model=x"], ["./ops.py:count has no input 'model'", "its inputs are report"]),
        (
            ["./ops.py:count", "--input", "report=x"],
            ["there is no x", "hint: orun test ./ops.py:count --input report=PATH"],
        ),
        (["./ops.py:count", "--input", "report"], ["--input wants PORT=PATH, not 'report'", "hint: orun test --help"]),
    ],
)
def test_a_wrong_command_line(orun: CommandLine, arguments: list[str], message: list[str]) -> None:
    refused = orun("test", *arguments)
    assert (refused.code, refused.err) == (2, "error: " + "\n  ".join(message) + "\n")


@pytest.mark.usefixtures("folder")
def test_no_function_of_that_name(orun: CommandLine) -> None:
    refused = orun("test", "./ops.py:cuont")
    assert (refused.code, refused.err) == (2, "error: ops.py has no function 'cuont'\n  did you mean count?\n")
