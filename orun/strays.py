"""What a stage wrote beside its output does not come back with its stored result: no stage may rest on another's.

Bazel and Nix keep such a file out of sight, tup refuses it. Here it may be read as long as it is what a clean build
would read: as it was left by the run of the stage whose result this run has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orun.discovery import digest_now
from orun.errors import UndeclaredInput
from orun.observe import portable_name
from orun.pipeline.model import Pipeline, Stage
from orun.steps import Done
from orun.store import Discovered, StatCache, Stray

Strays = Mapping[str, Stray]


@dataclass(frozen=True)
class Apart:
    """Holds the stages of a run against one another.

    Attributes:
        pipeline: theirs.
        done: those that are up to date.
        files: digests of files.
    """

    pipeline: Pipeline
    done: Mapping[str, Done]
    files: StatCache

    def require(self, stage: Stage, found: Discovered, wrote: Strays) -> None:
        """Refuse a stage that read what another one wrote as some other run has left it, or the other way about.

        Args:
            stage: the later of the two.
            found: what it read.
            wrote: what it wrote beside its output.

        Raises:
            UndeclaredInput: when it did.
        """
        for name, one in self.done.items():
            if not wrote and not one.action.wrote:  # nearly always, and this is asked of every pair of stages
                continue
            for file in self._changed(stage, found, one.action.wrote):
                raise _refused(stage.id, file, reader=stage.id, writer=name)
            for file in self._changed(one.step.stage, one.action.discovered, wrote):
                raise _refused(stage.id, file, reader=name, writer=stage.id)

    def _changed(self, stage: Stage, found: Discovered, wrote: Strays) -> Iterator[str]:
        """The files that a stage read, looked for or was told of, and that are not as they were left."""
        for name, stray in wrote.items():
            seen = found.files.get(name)
            asked = name in found.probed and stray.how != "added"  # who adds to a log may look for it
            if seen is None and (asked or self._is_told_of(stage, name)):
                seen = digest_now(self.pipeline.root / name, self.files)
            if seen not in (None, stray.digest):
                yield name

    def _is_told_of(self, stage: Stage, name: str) -> bool:
        root, project = self.pipeline.root, self.pipeline.project
        told = (Path(portable_name(root / reference.path, root, project)) for reference in stage.references)
        return any(Path(name).is_relative_to(one) for one in told)


def _refused(stage: str, file: str, *, reader: str, writer: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{reader} reads {file}, which is not as {writer} left it",
        why=f"{writer} writes it beside its output, so that it does not come back with its stored result",
        hint=f"Write it to context.output in {writer}, and read it from context.inputs in {reader}\n"
        f"To have it written again: --force {writer}",
    )
