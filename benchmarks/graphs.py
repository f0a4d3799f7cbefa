"""Pipelines of many trivial stages: a chain, or a fan after a first stage; each stage writes a few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

Shape = Literal["fan", "chain"]

CODE = """\
from orun.stages.contract import Context, stage


@stage(inputs={}, output="files")
def first(context: Context, *, number: int) -> None:
    (context.output / "number.txt").write_text(str(number))


@stage(inputs={"before": "files"}, output="files")
def then(context: Context, *, number: int) -> None:
    (context.output / "number.txt").write_text(str(number))
"""


def edges(shape: Shape, size: int) -> Iterator[tuple[int, int | None]]:
    """Yield each stage of a graph with the stage before it; stages are numbers from 0."""
    for number in range(size):
        yield number, None if number == 0 else number - 1 if shape == "chain" else 0


def write_pipeline(folder: Path, shape: Shape, size: int) -> Path:
    """Write a graph as a pipeline of functions.

    Args:
        folder: folder for the pipeline file and the code of its stages.
        shape: shape of the graph.
        size: number of stages.

    Returns:
        The pipeline file.
    """
    (folder / "trivial.py").write_text(CODE, "utf-8")
    path = folder / f"{shape}{size}.yaml"
    path.write_text("\n".join([f"name: {shape}{size}", "stages:", *_stages(shape, size)]) + "\n", "utf-8")
    return path


def _stages(shape: Shape, size: int) -> Iterator[str]:
    for number, before in edges(shape, size):
        if before is None:
            yield f"  s{number}: {{uses: ./trivial.py:first, with: {{number: {number}}}}}"
        else:
            yield f"  s{number}: {{uses: ./trivial.py:then, with: {{number: {number}}}, needs: s{before}}}"
