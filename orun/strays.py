"""What a stage wrote beside its output is for no other stage to read.

Bazel and Nix keep such a file out of sight, tup refuses it. It does not come back when the stage's result comes from
the store, so that a stage that reads it makes something else of the same inputs, depending on which run wrote it last.
"""

from __future__ import annotations

from collections.abc import Mapping

from orun.errors import UndeclaredInput
from orun.observe import portable_name
from orun.pipeline.model import Pipeline, Stage
from orun.planner import Done
from orun.store import Discovered


def require_apart(
    pipeline: Pipeline, stage: Stage, found: Discovered, wrote: Mapping[str, bool], done: Mapping[str, Done]
) -> None:
    """Refuse a stage that reads what another one wrote beside its output, or the other way about.

    Args:
        pipeline: theirs.
        stage: the later of the two.
        found: what it read.
        wrote: what it wrote beside its output -> whether it only added to its end.
        done: the stages that are up to date.

    Raises:
        UndeclaredInput: when it does.
    """
    for name, one in done.items():
        if name != stage.id and one.action.wrote and (file := _read(pipeline, stage, found, one.action.wrote)):
            raise _refused(stage.id, file, reader=stage.id, writer=name)
        if name != stage.id and wrote and (file := _read(pipeline, one.step.stage, one.action.discovered, wrote)):
            raise _refused(stage.id, file, reader=name, writer=stage.id)


def _read(pipeline: Pipeline, stage: Stage, found: Discovered, wrote: Mapping[str, bool]) -> str:
    """The first of the files that a stage read, was told of, or looked for: who adds to a log may look for it."""
    paths = (pipeline.root / reference.path for reference in stage.references)
    told = {portable_name(path, pipeline.root, pipeline.project) for path in paths}
    for name, adds in wrote.items():
        below = (f"{name}/".startswith(f"{one}/") for one in told)
        if name in found.files or (name in found.probed and not adds) or any(below):
            return name
    return ""


def _refused(stage: str, file: str, *, reader: str, writer: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{reader} reads {file}, which {writer} wrote beside its output",
        why="what is written there does not come back with a stored result: what is read may be of another run",
        hint=f"Write it to context.output in {writer}, and read it from context.inputs in {reader}\n"
        f"Where it is a cache, put a CACHEDIR.TAG into its folder and use --force {writer}",
    )
