"""Graphs of `graphs.py` in the languages of other build systems and runners; each stage writes a few bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.graphs import Shape, edges, write_pipeline

REDUN = """\
from redun import File, task

redun_namespace = "bench"


@task()
def write(number: int, before: object) -> File:
    file = File(f"s{{number}}.txt")
    file.write(str(number))
    return file


@task()
def main() -> list:
    found = []
    for number in range({size}):
        found.append(write(number, found[{before}] if number else None))
    return found
"""


@dataclass(frozen=True)
class Runner:
    """A tool that brings a graph up to date.

    Attributes:
        program: the executable, searched on the PATH.
        write: write(folder, shape, size) writes the graph into the folder.
        command: brings the graph up to date, in that folder.
        prepare: commands before the first run.
        most: most stages; with more, a first run takes most of an hour.
    """

    program: str
    write: Callable[[Path, Shape, int], None]
    command: Sequence[str]
    prepare: Sequence[Sequence[str]] = ()
    most: int = 1000


def _orun(folder: Path, shape: Shape, size: int) -> None:
    write_pipeline(folder, shape, size).rename(folder / "graph.yaml")


def _ninja(folder: Path, shape: Shape, size: int) -> None:
    lines = ["rule write", "  command = echo $n > $out"]
    for number, before in edges(shape, size):
        lines += [f"build s{number}.txt: write {_file(before)}", f"  n = {number}"]
    _save(folder / "build.ninja", lines)


def _make(folder: Path, shape: Shape, size: int) -> None:
    lines = [f"all: {' '.join(_file(number) for number in range(size))}"]
    for number, before in edges(shape, size):
        lines += [f"s{number}.txt: {_file(before)}", f"\techo {number} > $@"]
    _save(folder / "Makefile", lines)


def _doit(folder: Path, shape: Shape, size: int) -> None:
    tasks = [
        {
            "name": str(number),
            "actions": [f"echo {number} > s{number}.txt"],
            "file_dep": _files(before),
            "targets": [f"s{number}.txt"],
        }
        for number, before in edges(shape, size)
    ]
    _save(folder / "dodo.py", ["def task_s():", *(f"    yield {task!r}" for task in tasks)])


def _dvc(folder: Path, shape: Shape, size: int) -> None:
    _save(folder / "dvc.yaml", ["stages:", *_dvc_stages(shape, size)])


def _dvc_stages(shape: Shape, size: int) -> Iterator[str]:
    for number, before in edges(shape, size):
        yield f"  s{number}: {{cmd: echo {number} > s{number}.txt, deps: {_files(before)}, outs: [s{number}.txt]}}"


def _snakemake(folder: Path, shape: Shape, size: int) -> None:
    lines = ["rule all:", f"    input: {[_file(number) for number in range(size)]}"]
    for number, before in edges(shape, size):
        lines += [f"rule s{number}:", f"    input: {_files(before)}", f"    output: 's{number}.txt'"]
        lines += [f"    shell: 'echo {number} > {{output}}'"]
    _save(folder / "Snakefile", lines)


def _redun(folder: Path, shape: Shape, size: int) -> None:
    before = "-1" if shape == "chain" else "0"
    (folder / "workflow.py").write_text(REDUN.format(size=size, before=before), "utf-8")


def _file(number: int | None) -> str:
    return "" if number is None else f"s{number}.txt"


def _files(number: int | None) -> list[str]:
    return [] if number is None else [_file(number)]


def _save(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", "utf-8")


RUNNERS: Mapping[str, Runner] = {
    "orun": Runner(sys.executable, _orun, (sys.executable, "-m", "orun", "graph.yaml", "--store", "store", "-q")),
    "ninja": Runner("ninja", _ninja, ("ninja", "--quiet")),
    "make": Runner("make", _make, ("make", "--silent")),
    "doit": Runner("doit", _doit, ("doit", "--verbosity", "0")),
    "Snakemake": Runner("snakemake", _snakemake, ("snakemake", "--cores", "1", "--quiet", "all")),
    "redun": Runner("redun", _redun, ("redun", "run", "workflow.py", "main")),
    "DVC": Runner(
        "dvc",
        _dvc,
        ("dvc", "repro", "--quiet"),
        prepare=(("dvc", "init", "--no-scm", "--quiet"), ("dvc", "config", "core.analytics", "false")),
        most=100,
    ),
}
