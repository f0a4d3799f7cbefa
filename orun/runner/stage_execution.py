"""Execution of one stage: session directory and inputs before, checks and action record after."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import TypeVar

from orun.core.serialization import Record, replace
from orun.core.targets import Target
from orun.environment import device, distributions, venvs
from orun.errors import InputChanged
from orun.executors.job import Job, JobResult
from orun.fs.observed_state import portable_name
from orun.fs.os_errors import quoted
from orun.pipeline.model import Pipeline
from orun.planning.implicit_deps import carry_over, changed_meanwhile, collect_files, digest_now, versions
from orun.planning.plan import Done, Step
from orun.runner.undeclared_writes import Apart, kept, kept_note
from orun.store import Action, Discovered, Signature, Store, Stray
from orun.store.layout import safe_name

SHORT = 12  # characters of a digest that tell two apart for people
Told = TypeVar("Told")


class Attempt(Record, frozen=True):
    """A stage about to run: the decision that it must, its folders, what it declares, and when it began."""

    pipeline: Pipeline
    store: Store
    step: Step
    scratch: Path
    log: Path
    declared: Mapping[str, Signature | None]
    started_at: float

    @classmethod
    def begin(cls, pipeline: Pipeline, store: Store, step: Step, logs: Path) -> Attempt:
        """Make the folders of an attempt and place its inputs, read-only."""
        scratch = store.scratch(step.stage.id)
        for port, tree in step.inputs.items():
            store.place(tree, scratch / "inputs" / port)
        (scratch / "output").mkdir()
        (scratch / "work").mkdir()
        logs.mkdir(exist_ok=True)
        log = logs / f"{safe_name(step.stage.id)}.log"
        return cls(pipeline, store, step, scratch, log, _declared(pipeline, store, step), time())

    def job(self, lineage: bytes) -> Job:
        """What the process of the stage is told; `lineage` is written for kinds that ask for it."""
        stage, use = self.step.stage, self.pipeline.kinds[self.step.stage.uses]
        lineage_file = self.scratch / "lineage.json"
        if use.spec.lineage:
            lineage_file.write_bytes(lineage)
        return Job(
            stage=stage.id,
            key=self.step.key,
            origin=use.origin,
            entry=use.entry,
            spec=use.spec,
            params=stage.params,
            inputs={port: f"{self.scratch}/inputs/{port}" for port in self.step.inputs},
            lasting=self.store.files.keeps_inodes(self.scratch),
            output=f"{self.scratch}/output",
            scratch=f"{self.scratch}/work",
            log=str(self.log),
            file=str(self.pipeline.file),
            root=str(self.pipeline.root),
            project=str(self.pipeline.project),
            named=tuple({str((self.pipeline.root / one.path).parent): None for one in stage.references}),
            ignore=self.store.private,
            target=self._located(stage.target) if stage.target else None,
            further={name: self._located(target) for name, target in stage.further.items()},
            seed=self.pipeline.seed,
            timeout=stage.timeout,
            memory=stage.memory,
            lineage=str(lineage_file) if use.spec.lineage else None,
            interpreter=venvs.interpreter(stage.environment) if stage.environment else None,
            overrides=self.pipeline.overrides,
        )

    def _located(self, target: Target) -> Target:
        """A target with its Python, when that is not the stage's."""
        stage = self.step.stage
        environment = stage.environment_of(target)
        python = None if environment == stage.environment else venvs.interpreter(environment)
        return target.below(self.pipeline.root, python)

    def conclude(self, result: JobResult, done: Mapping[str, Done]) -> Action:
        """Store what a stage made, once it is known that nothing it read changed meanwhile.

        Where the same inputs have made another artifact before, the first one is kept and returned.

        Args:
            result: what its process said.
            done: the stages that are up to date.

        Raises:
            InputChanged: when something did, a package that counts among it.
            UndeclaredInput: when it read what one of `done` wrote beside its output, in another state; or the other
                way about.
            StoreError: when the store cannot take it.
        """
        self.require_unchanged()
        self._require_packages(result)
        discovered, wrote = self._discovered(result), self._strays(result)
        if earlier := kept(discovered, self.store.latest(self.pipeline.name, self.step.stage.id)):
            wrote = {**earlier, **wrote}
            result = replace(result, notes=(*result.notes, kept_note(sorted(earlier))))
        Apart(self.pipeline, done, self.store).require(self.step.stage, discovered, wrote)
        with self.store.together():
            return self._store(result, discovered, wrote)

    def _store(self, result: JobResult, discovered: Discovered, wrote: Mapping[str, Stray]) -> Action:
        tree = self.store.add_tree(self.scratch / "output")
        step, use = self.step, self.pipeline.kinds[self.step.stage.uses]
        packages = venvs.packages(step.stage.environment_of(step.stage.target))
        action = Action(
            key=step.key,
            parts=step.parts,
            discovered=discovered,
            tree=tree.digest,
            size=tree.size,
            metrics=result.metrics,
            log=self.store.add_file(self.log),
            pipeline=self.pipeline.name,
            stage=step.stage.id,
            host=device.made_on(use.spec.stage_class, step.stage.target, packages),
            started_at=self.started_at,
            seconds=result.seconds,
            cpu_seconds=result.cpu_seconds,
            peak_memory=result.peak_memory,
            wrote=wrote,
            notes=result.notes,
            trace="python" if result.untraced else "full",
        )
        kept = self._kept(action)
        self.store.put_action(kept)
        return kept

    def _kept(self, action: Action) -> Action:
        """The first result that the same inputs made, as long as it is whole; else the new one."""
        spec = self.pipeline.kinds[self.step.stage.uses].spec
        alike = (one for one in self.store.actions(action.key) if one.discovered == action.discovered)
        first = next(alike, None)
        measures = spec.stage_class == "measurement" or (spec.output == "metrics" and not spec.deterministic)
        if first is None or measures:  # to measure again is to replace
            return action
        differs = action.tree != first.tree
        kept = first if differs and not self.store.check(first.tree) else action
        if differs and spec.deterministic:
            self.store.notices.append(self._rebuilt_differently(first, action, kept))
        trees = dict.fromkeys((*first.others, first.tree, action.tree))
        others = tuple(tree for tree in trees if tree != kept.tree)
        return replace(kept, others=others, wrote=action.wrote)

    def _rebuilt_differently(self, first: Action, action: Action, kept: Action) -> str:
        old, new = first.tree[:SHORT], action.tree[:SHORT]
        done = f"kept the first ({old}), not the new result ({new})"
        if kept is action:
            done = f"the first result ({old}) is no longer whole, so the new one ({new}) was stored"
        stage = quoted(self.step.stage.id)
        return (
            f"{stage} was rebuilt differently from the same inputs: {done}; it is not deterministic, or reads what is "
            f"not seen; to compare: orun verify {quoted(self.pipeline.file)} --rebuild {stage}; to have it made anew: "
            f"rm -r {quoted(self.store.record_of(kept).parent)}"
        )

    def discard(self) -> None:
        """Remove its folders."""
        self.store.discard(self.scratch)

    def require_unchanged(self) -> None:
        """Raise InputChanged unless code, paths and artifacts of other stages still are what the key says."""
        for reference in self.step.stage.references:
            name = f"content of {reference.parameter}"
            if self.store.files.digest_path(self.pipeline.root / reference.path) != self.step.parts[name]:
                raise self._changed(Path(reference.path).as_posix())
        now = _declared(self.pipeline, self.store, self.step)
        same = self.store.files.is_same
        if moved := sorted(path for path, seen in self.declared.items() if not same(path, seen, now.get(path))):
            raise self._changed(os.path.relpath(moved[0], self.pipeline.root))  # and put back before the stage ended
        for port, tree in self.step.inputs.items():
            if self.store.check(tree):
                raise self._changed(f"input {port}")

    def _require_packages(self, result: JobResult) -> None:
        """Raise InputChanged when a package was installed anew since the run began: the key has the version of then."""
        then, now = distributions.exact(), distributions.exact_now()
        if then is now or self.step.stage.environment:  # what an isolated one holds is recorded where it is made
            return
        spec = self.pipeline.kinds[self.step.stage.uses].spec
        found = (distributions.find(tool, then) or distributions.find(tool, now) for tool in spec.tools)
        names = {distributions.normalise(one[0]) for one in found if one}
        for name in sorted({*names, *result.packages}):
            versions = [packages.get(name, distributions.ABSENT) for packages in (then, now)]
            if len(set(versions)) > 1:
                raise changed_meanwhile(self.step.stage.id, f"package {name} was changed ({' -> '.join(versions)})")

    def _changed(self, what: str) -> InputChanged:
        return changed_meanwhile(self.step.stage.id, f"{what} was edited")

    def _strays(self, result: JobResult) -> dict[str, Stray]:
        found = {
            path: Stray(how, "" if how == "added" else digest_now(Path(path), self.store.files))
            for path, how in result.wrote.items()
        }
        return _by_name(found, self.pipeline.root, self.pipeline.project)

    def _discovered(self, result: JobResult) -> Discovered:
        root, files, secrets = self.pipeline.root, self.store.files, self.pipeline.private
        project = self.pipeline.project
        declared = {os.path.realpath(root / reference.path) for reference in self.step.stage.references}
        reads = {path: signature for path, signature in result.reads.items() if path not in declared}
        exact = venvs.packages(self.step.stage.environment) or versions(root)
        found = Discovered(
            files=collect_files(self.step.stage.id, reads, root, project, files),
            folders=_by_name(result.listings, root, project),
            packages={name: exact.get(name, distributions.ABSENT) for name in sorted(result.packages)},
            environment={name: secrets.state(name, value) for name, value in sorted(result.environment.items())},
            probed=_by_name(result.probed, root, project),
        )
        earlier = [action.discovered for action in self.store.actions(self.step.key)]
        return carry_over(found, earlier, root, files, secrets, exact)


def _declared(pipeline: Pipeline, store: Store, step: Step) -> dict[str, Signature | None]:
    """The signature of each file that the parameters of a stage name, and of those in the folders that they name."""
    paths = [pipeline.root / reference.path for reference in step.stage.references]
    return {name: seen for path in paths for name, seen in store.files.signatures(path).items()}


def _by_name(found: Mapping[str, Told], root: Path, project: Path) -> dict[str, Told]:
    return {portable_name(Path(path), root, project): what for path, what in sorted(found.items())}
