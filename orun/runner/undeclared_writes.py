"""Undeclared writes: files that a stage wrote beside its output, which no other stage may rely on.

Bazel and Nix keep such a file out of sight, tup refuses it. Here it may be read as long as it is what a clean build
would read: as it was left by the run of the stage whose result this run has. The output of a stage, where people open
it, may be read by those that wait for the stage: for others it is of this run or of the last one, as it happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orun.core.serialization import Record
from orun.errors import UndeclaredInput
from orun.fs.observed_state import portable_name
from orun.pipeline.graph import reached
from orun.pipeline.model import Pipeline, Stage
from orun.planning.implicit_deps import digest_now
from orun.planning.plan import Done
from orun.store import Action, Discovered, Store, Stray
from orun.store.layout import safe_name

SHOWN = 3  # files that a note names
Strays = Mapping[str, Stray]


class Apart(Record, frozen=True):
    """Holds the stages of a run against one another.

    Attributes:
        pipeline: theirs.
        done: those that are up to date.
        store: where their outputs are.
    """

    pipeline: Pipeline
    done: Mapping[str, Done]
    store: Store

    def require(self, stage: Stage, found: Discovered, wrote: Strays) -> None:
        """Refuse a stage that read what another one wrote as some other run has left it, or the other way about.

        Args:
            stage: the later of the two.
            found: what it read.
            wrote: what it wrote beside its output.

        Raises:
            UndeclaredInput: when it did, or read the output of one that it does not wait for.
        """
        for file, name in self._outputs(stage, found):
            raise _unneeded(stage.id, file, name)
        for name, one in self.done.items():
            if not wrote and not one.action.wrote:  # nearly always, and this is asked of every pair of stages
                continue
            for file in self._changed(stage, found, one.action.wrote):
                raise _refused(stage.id, file, reader=stage.id, writer=name)
            for file in self._changed(one.step.stage, one.action.discovered, wrote):
                raise _refused(stage.id, file, reader=name, writer=stage.id)

    def _outputs(self, stage: Stage, found: Discovered) -> Iterator[tuple[str, str]]:
        """The files that a stage read among the outputs of others that it does not wait for, and whose they are."""
        told = self._told(stage) if any("out/" in reference.path for reference in stage.references) else ()
        names = [name for name in (*found.files, *told) if "/out/" in name]
        if not names:
            return
        needed = reached([stage.id], {one.id: one.before for one in self.pipeline.stages})
        others = {safe_name(one.id): one.id for one in self.pipeline.stages if one.id not in needed}
        out = self.store.root / "out" / safe_name(self.pipeline.name)
        tops = {portable_name(one, self.pipeline.root, self.pipeline.project) for one in (out, out.resolve())}
        for name in names:
            folder = next((name[len(top) :].split("/")[1] for top in tops if name.startswith(f"{top}/")), "")
            if folder in others:
                yield name, others[folder]

    def _changed(self, stage: Stage, found: Discovered, wrote: Strays) -> Iterator[str]:
        """The files that a stage read, looked for or was told of, and that are not as they were left."""
        for name, stray in wrote.items():
            seen = found.files.get(name)
            asked = name in found.probed and stray.how != "added"  # who adds to a log may look for it
            if seen is None and (asked or self._is_told_of(stage, name)):
                seen = digest_now(self.pipeline.root / name, self.store.files)
            if seen not in (None, stray.digest):
                yield name

    def _is_told_of(self, stage: Stage, name: str) -> bool:
        return any(Path(name).is_relative_to(one) for one in self._told(stage))

    def _told(self, stage: Stage) -> Iterator[str]:
        """The files and folders that its parameters name."""
        root, project = self.pipeline.root, self.pipeline.project
        return (portable_name(root / reference.path, root, project) for reference in stage.references)


def kept(found: Discovered, last: Action | None) -> dict[str, Stray]:
    """Of what the last run of a stage left beside its output, what it has read now, as caches are; by path.

    Nothing of that tells which code made it: an edit of a helper runs the stage again, and does not empty its cache.
    """
    wrote = last.wrote if last else {}
    return {name: one for name, one in wrote.items() if one.how == "written" and found.files.get(name) == one.digest}


def kept_note(names: Sequence[str]) -> str:
    """What there is to say of such files."""
    rest = len(names) - SHOWN
    files = ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    return (
        f"it read {files}, left beside its output by an earlier run: what it took from there may be of code or data "
        f"that have changed since; to have it made anew, remove {'it' if len(names) == 1 else 'them'} and run again"
    )


def _unneeded(stage: str, file: str, whose: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{stage} reads {file}, the output of {whose}, and does not need {whose}",
        why=f"it may be what an earlier run left there: {stage} does not wait for {whose}",
        hint=f"Name {whose} under needs of {stage}",
    )


def _refused(stage: str, file: str, *, reader: str, writer: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{reader} reads {file}, which is not as {writer} left it",
        why=f"{writer} writes it beside its output, so that it does not come back with its stored result",
        hint=f"Write it to context.output in {writer}, and read it from context.inputs in {reader}\n"
        f"To have it written again: --force {writer}",
    )
