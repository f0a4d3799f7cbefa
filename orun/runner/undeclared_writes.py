"""Undeclared writes: files that a stage wrote beside its output, on which no other stage may rely.

Bazel and Nix hide such a file, tup refuses it. orun lets a stage read it only in the state in which a clean build would
leave it: as the run that built the writer's current result left it. The output of another stage in `out/` may be read
only by stages that wait for it; for all others its content depends on the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orun.core.serialization import Record
from orun.errors import UndeclaredInput
from orun.fs.observed_state import to_portable_name
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Pipeline, Stage
from orun.planning.implicit_deps import digest_current
from orun.planning.plan import Done
from orun.store import Action, ImplicitDependencies, Store, UndeclaredWrite
from orun.store.layout import to_safe_name
from orun.text.lists import join_few

Writes = Mapping[str, UndeclaredWrite]


class IsolationCheck(Record, frozen=True):
    """Check that the stages of a run read no undeclared state of one another."""

    pipeline: Pipeline
    done: Mapping[str, Done]  # the stages that are up to date
    store: Store

    def require(self, stage: Stage, dependencies: ImplicitDependencies, writes: Writes) -> None:
        """Refuse a stage whose dependencies or undeclared writes conflict with those of a stage that is up to date.

        Raises:
            UndeclaredInput: if one of them read an undeclared write of the other in another state, or the stage read an
                output in `out/` of a stage that it does not wait for.
        """
        for file, writer in self._iter_outputs_read(stage, dependencies):
            raise _build_output_error(stage.id, file, writer)
        for name, done in self.done.items():
            if not writes and not done.action.wrote:  # nearly always; this runs for every pair of stages
                continue
            for file in self._iter_conflicts(stage, dependencies, done.action.wrote):
                raise _build_conflict_error(stage.id, file, reader=stage.id, writer=name)
            for file in self._iter_conflicts(done.step.stage, done.action.implicit_deps, writes):
                raise _build_conflict_error(stage.id, file, reader=name, writer=stage.id)

    def _iter_outputs_read(self, stage: Stage, dependencies: ImplicitDependencies) -> Iterator[tuple[str, str]]:
        """Yield each file that a stage read in the output of a stage that it does not wait for, and that stage."""
        references = (
            self._iter_references(stage) if any("out/" in reference.path for reference in stage.references) else ()
        )
        names = [name for name in (*dependencies.files, *references) if "/out/" in name]
        if not names:
            return
        needed = find_reachable([stage.id], {each.id: each.before for each in self.pipeline.stages})
        not_needed = {to_safe_name(each.id): each.id for each in self.pipeline.stages if each.id not in needed}
        out = self.store.root / "out" / to_safe_name(self.pipeline.name)
        tops = {to_portable_name(path, self.pipeline.root, self.pipeline.project) for path in (out, out.resolve())}
        for name in names:
            folder = next((name[len(top) :].split("/")[1] for top in tops if name.startswith(f"{top}/")), "")
            if folder in not_needed:
                yield name, not_needed[folder]

    def _iter_conflicts(self, stage: Stage, dependencies: ImplicitDependencies, writes: Writes) -> Iterator[str]:
        """Yield the undeclared writes that a stage depends on in another state than they were left in."""
        for name, write in writes.items():
            seen = dependencies.files.get(name)
            probed = name in dependencies.probed and write.how != "added"  # a stage may probe a log before it appends
            if seen is None and (
                probed or any(Path(name).is_relative_to(path) for path in self._iter_references(stage))
            ):
                seen = digest_current(self.pipeline.root / name, self.store.files)
            if seen not in (None, write.digest):
                yield name

    def _iter_references(self, stage: Stage) -> Iterator[str]:
        """Yield the files and folders that the stage's parameters name."""
        root, project = self.pipeline.root, self.pipeline.project
        return (to_portable_name(root / reference.path, root, project) for reference in stage.references)


def find_reused_writes(dependencies: ImplicitDependencies, last: Action | None) -> dict[str, UndeclaredWrite]:
    """Return the undeclared writes of a stage's last run that this run read unchanged, such as caches, by path.

    Nothing says which code made them: an edit of a helper runs the stage again without emptying its cache.
    """
    writes = last.wrote if last else {}
    return {
        name: write
        for name, write in writes.items()
        if write.how == "written" and dependencies.files.get(name) == write.digest
    }


def describe_reused_writes(names: Sequence[str]) -> str:
    """Return the note that a result may contain stale content of such files."""
    return (
        f"it read {join_few(names)}, written beside its output by an earlier run: the content may come from code or "
        f"data that has changed since; to build it anew, remove {'it' if len(names) == 1 else 'them'} and run again"
    )


def _build_output_error(stage: str, file: str, writer: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{stage} reads {file}, the output of {writer}, and does not need {writer}",
        why=f"it may be the output of an earlier run: {stage} does not wait for {writer}",
        hint=f"Name {writer} under needs of {stage}",
    )


def _build_conflict_error(stage: str, file: str, *, reader: str, writer: str) -> UndeclaredInput:
    return UndeclaredInput(
        stage,
        f"{reader} reads {file}, which has changed since {writer} wrote it",
        why=f"{writer} writes it beside its output, so that it is not restored with its stored result",
        hint=f"Write it to context.output in {writer}, and read it from context.inputs in {reader}\n"
        f"To have it written again: --force {writer}",
    )
