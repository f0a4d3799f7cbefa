"""Small pipeline files in a temporary folder, and what becomes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from orun.errors import PipelineError
from orun.pipeline import load
from orun.pipeline.compose import compose
from orun.pipeline.model import Pipeline
from orun.pipeline.nodes import Map, Node, Span
from orun.pipeline.problems import Problems, render, render_note
from orun.pipeline.text import read

NONE: Mapping[str, str] = MappingProxyType({})
EXPORT = "  export: {uses: convert/onnx, with: {path: model.onnx}}\n"


def write(folder: Path, text: str, name: str = "p.yaml") -> Path:
    """A pipeline file in a folder that has `model.onnx` and `code.py` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("model.onnx").write_bytes(b"ONNX")
    folder.joinpath("code.py").write_text("def pairs(): ...\ndef load(): ...\n", encoding="utf-8")
    file = folder / name
    file.write_bytes(text.encode())
    return file


def loaded(folder: Path, text: str, overrides: Mapping[str, str] = NONE) -> Pipeline:
    """The pipeline of a good file."""
    return load(write(folder, text), overrides)


def list_notes(folder: Path, text: str) -> list[str]:
    """What is noted of a good file, its path relative to its folder."""
    with contextlib.chdir(folder):
        return [render_note(note) for note in loaded(folder, text).notes]


def complaint(folder: Path, text: str, overrides: Mapping[str, str] = NONE) -> str:
    """What is said of a bad file, its path relative to its folder."""
    file = write(folder, text)
    with contextlib.chdir(folder):
        try:
            load(file, overrides)
        except PipelineError as error:
            return render(error.problems)
    raise AssertionError("the file is good")


def node(folder: Path, text: str) -> Node:
    """The tree of a good YAML text."""
    problems = Problems()
    root = compose(read(write(folder, text)), problems)
    problems.check()
    assert root is not None
    return root


def mapping(folder: Path, text: str) -> Map:
    """The tree of a good YAML text that is a mapping."""
    root = node(folder, text)
    assert isinstance(root, Map)
    return root


def span(file: str = "p.yaml", line: int = 1, column: int = 1, source: str = "") -> Span:
    """A place of one column."""
    return Span(file, line, column, 1, source)
