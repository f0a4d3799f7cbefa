"""Execution of one stage: session directory and inputs before, checks and action record after."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import TypeVar

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import find_value
from orun.core.serialization import Record, replace
from orun.core.targets import Target
from orun.environment import device, distributions, venvs
from orun.errors import InputChanged, StageError
from orun.executors import Job, JobResult
from orun.fs.machine_folder import locate_readings
from orun.fs.observed_state import observe_presence, to_portable_name
from orun.fs.os_errors import quote
from orun.fs.signatures import Signature
from orun.pipeline.model import KindUse, Pipeline
from orun.planning.implicit_deps import (
    build_changed_error,
    carry_over,
    collect_files,
    digest_current,
    read_package_versions,
)
from orun.planning.plan import Done, Step
from orun.planning.provenance import Provenance
from orun.runner.undeclared_writes import IsolationCheck, describe_reused_writes, find_reused_writes
from orun.store import Action, ImplicitDependencies, Store, UndeclaredWrite
from orun.store.layout import (
    VERSION_FILE,
    format_command_options,
    list_private_paths,
    locate_default_store,
    to_safe_name,
)

SHORT_DIGEST = 12  # characters of a digest in messages
Value = TypeVar("Value")


class StageExecution(Record, frozen=True):
    """A stage that runs."""

    pipeline: Pipeline
    store: Store
    step: Step
    session_folder: Path
    log: Path
    declared: Mapping[str, Signature | None]  # of each file that its parameters name, when it started
    started_at: float  # seconds since the epoch
    machine: str  # id of this machine in a fleet; empty for none

    @classmethod
    def prepare(cls, pipeline: Pipeline, store: Store, step: Step, logs: Path, machine: str = "") -> StageExecution:
        """Create the session directory of a stage, with its inputs read-only."""
        session_folder = store.make_session_folder(step.stage.id)
        for port, tree in step.inputs.items():
            store.materialize(tree, session_folder / "inputs" / port)
        (session_folder / "output").mkdir()
        (session_folder / "work").mkdir()
        logs.mkdir(exist_ok=True)
        log = logs / f"{to_safe_name(step.stage.id)}.log"
        return cls(pipeline, store, step, session_folder, log, _sign_declared(pipeline, store, step), time(), machine)

    @property
    def _kind(self) -> KindUse:
        return self.pipeline.kinds[self.step.stage.uses]

    def build_job(self, done: Mapping[str, Done]) -> Job:
        """Return the job for the executor; write `provenance.json` for kinds that ask for it."""
        stage, kind = self.step.stage, self._kind
        provenance_file = self.session_folder / "provenance.json"
        if provenance := Provenance.of(self.pipeline, stage, done):
            provenance_file.write_bytes(provenance.to_json())
        return Job(
            stage=stage.id,
            key=self.step.key,
            origin=kind.origin,
            entry=kind.entry,
            spec=kind.spec,
            params=stage.params,
            inputs={port: f"{self.session_folder}/inputs/{port}" for port in self.step.inputs},
            stable_inodes=self.store.files.keeps_inodes(self.session_folder),
            output=f"{self.session_folder}/output",
            work=f"{self.session_folder}/work",
            log=str(self.log),
            file=str(self.pipeline.file),
            root=str(self.pipeline.root),
            project=str(self.pipeline.project),
            named_folders=tuple({str((self.pipeline.root / ref.path).parent): None for ref in stage.references}),
            ignore=(*self.store.private, *self._list_nested_private_paths(), str(locate_readings())),
            target=self._resolve_target(stage.target) if stage.target else None,
            extra_targets={name: self._resolve_target(target) for name, target in stage.extra_targets.items()},
            sources=stage.sources,
            seed=self.pipeline.seed,
            timeout=stage.timeout,
            memory=stage.memory,
            provenance=str(provenance_file) if provenance else None,
            interpreter=venvs.choose_interpreter(stage.environment) if stage.environment else None,
            overrides=self.pipeline.overrides,
        )

    def _list_nested_private_paths(self) -> tuple[str, ...]:
        """Return the private paths of the default store, which an orun in the stage uses, if the run has another."""
        root = locate_default_store(self.pipeline.root).absolute()
        is_folder_of_user = observe_presence(root) and not observe_presence(root / VERSION_FILE)
        return () if root == self.store.root or is_folder_of_user else list_private_paths(root)

    def _resolve_target(self, target: Target) -> Target:
        """Return a target with absolute paths, and with its Python if that is not the stage's."""
        stage = self.step.stage
        environment = stage.choose_environment(target)
        python = None if environment == stage.environment else venvs.choose_interpreter(environment)
        return target.resolve_paths(self.pipeline.root, python)

    def store_result(self, result: JobResult, done: Mapping[str, Done]) -> Action:
        """Check that nothing the stage read has changed meanwhile, then store its artifact and its action record.

        If the same inputs led to another artifact before, that one is kept and returned.

        Raises:
            InputChanged: if a file, an input or a package that counts has changed.
            UndeclaredInput: if it read an undeclared write of a stage in `done` in another state, or vice versa.
            StoreError: if the store fails.
        """
        self.require_unchanged()
        self._require_packages(result)
        implicit_deps, writes = self._collect_implicit_dependencies(result), self._read_undeclared_writes(result)
        if reused := find_reused_writes(implicit_deps, self.store.find_latest(self.pipeline.name, self.step.stage.id)):
            writes = {**reused, **writes}
            result = replace(result, notes=(*result.notes, describe_reused_writes(sorted(reused))))
        IsolationCheck(self.pipeline, done, self.store).require(self.step.stage, implicit_deps, writes)
        with self.store.flush_together():
            return self._store(result, implicit_deps, writes)

    def _store(
        self, result: JobResult, implicit_deps: ImplicitDependencies, writes: Mapping[str, UndeclaredWrite]
    ) -> Action:
        tree = self.store.add_tree(self.session_folder / "output")
        step, spec = self.step, self._kind.spec
        packages = venvs.read_packages(step.stage.choose_environment(step.stage.target))
        host = device.fingerprint_origin(spec.stage_class, step.stage.target, packages)
        action = Action(
            key=step.key,
            components=step.components,
            implicit_deps=implicit_deps,
            tree=tree.digest,
            size=tree.size,
            metrics=result.metrics,
            log=self.store.add_file(self.log),
            pipeline=self.pipeline.name,
            stage=step.stage.id,
            host=host | ({"machine": self.machine} if self.machine else {}),
            started_at=self.started_at,
            seconds=result.seconds,
            cpu_seconds=result.cpu_seconds,
            peak_memory=result.peak_memory,
            wrote=writes,
            notes=result.notes,
            trace="python" if result.untraced else "full",
        )
        kept = self._choose_result(action)
        self.store.put_action(kept)
        return kept

    def _choose_result(self, action: Action) -> Action:
        """Return the first result of the same inputs while its objects are undamaged, otherwise the new one."""
        spec = self._kind.spec
        same_inputs = (
            stored for stored in self.store.list_actions(action.key) if stored.implicit_deps == action.implicit_deps
        )
        first = next(same_inputs, None)
        measures = spec.stage_class == "measurement" or (spec.output == "metrics" and not spec.deterministic)
        if first is None or measures:  # a new measurement replaces the old one
            return action
        differs = action.tree != first.tree
        kept = first if differs and not self.store.check(first.tree) else action
        if differs and spec.deterministic:
            self.store.notices.append(self._describe_nondeterminism(first, action, kept))
        trees = dict.fromkeys((*first.other_trees, first.tree, action.tree))
        other_trees = tuple(tree for tree in trees if tree != kept.tree)
        return replace(kept, other_trees=other_trees, wrote=action.wrote)

    def _describe_nondeterminism(self, first: Action, action: Action, kept: Action) -> str:
        old, new = first.tree[:SHORT_DIGEST], action.tree[:SHORT_DIGEST]
        result = f"kept the first ({old}), not the new result ({new})"
        if kept is action:
            result = f"the first result ({old}) is damaged, so the new one ({new}) was stored"
        stage = quote(self.step.stage.id)
        options = format_command_options(self.pipeline.overrides, self.store.root, self.pipeline.root)
        return (
            f"{stage} was rebuilt differently from the same inputs: {result}; it is not deterministic, or reads "
            f"something that orun cannot see; to compare: orun verify {quote(self.pipeline.file)} --rebuild {stage}"
            f"{options}; to build it anew: rm -r {quote(self.store.locate_record(kept).parent)}"
        )

    def discard(self) -> None:
        """Remove the session directory."""
        self.store.discard(self.session_folder)

    def require_unchanged(self) -> None:
        """Raise InputChanged unless code, paths and input artifacts still match the cache key."""
        for reference in self.step.stage.references:
            content = find_value(self.step.components, ComponentKind.CONTENT, reference.parameter)
            if self.store.files.digest_path(self.pipeline.root / reference.path) != content:
                raise self._build_error(Path(reference.path).as_posix())
        now = _sign_declared(self.pipeline, self.store, self.step)
        same = self.store.files.is_same
        if edited := sorted(path for path, seen in self.declared.items() if not same(path, seen, now.get(path))):
            # It was edited and put back before the stage ended.
            raise self._build_error(os.path.relpath(edited[0], self.pipeline.root))
        for port, tree in self.step.inputs.items():
            if self.store.check(tree):
                raise self._build_error(f"input {port}")

    def _require_packages(self, result: JobResult) -> None:
        """Raise InputChanged if a package changed since the run began: the cache key has the version of then."""
        then, now = distributions.list_exact(), distributions.list_exact_now()
        # Packages of an isolated environment are recorded when it is made.
        if then is now or self.step.stage.environment:
            return
        spec = self._kind.spec
        tools = (distributions.find(tool, then) or distributions.find(tool, now) for tool in spec.tools)
        names = {distributions.normalize(tool[0]) for tool in tools if tool}
        for name in sorted({*names, *result.packages}):
            versions = [packages.get(name, distributions.ABSENT) for packages in (then, now)]
            if len(set(versions)) > 1:
                raise build_changed_error(self.step.stage.id, f"package {name} was changed ({' -> '.join(versions)})")

    def _build_error(self, path: str) -> InputChanged:
        return build_changed_error(self.step.stage.id, f"{path} was edited")

    def _read_undeclared_writes(self, result: JobResult) -> dict[str, UndeclaredWrite]:
        if self._kind.spec.publishes:
            return {}  # to write to its destination is its purpose
        writes = {
            path: UndeclaredWrite(how, "" if how == "added" else digest_current(Path(path), self.store.files))
            for path, how in result.undeclared_writes.items()
        }
        return _make_portable(writes, self.pipeline.root, self.pipeline.project)

    def _collect_implicit_dependencies(self, result: JobResult) -> ImplicitDependencies:
        root, files, secrets = self.pipeline.root, self.store.files, self.pipeline.private
        project = self.pipeline.project
        declared = {os.path.realpath(root / reference.path) for reference in self.step.stage.references}
        reads = {path: signature for path, signature in result.reads.items() if path not in declared}
        exact = venvs.read_packages(self.step.stage.environment) or read_package_versions(root)
        implicit_deps = ImplicitDependencies(
            files=collect_files(self.step.stage.id, reads, root, project, files),
            folders=_make_portable(result.listings, root, project),
            packages={name: exact.get(name, distributions.ABSENT) for name in sorted(result.packages)},
            environment={
                name: secrets.compute_state(name, value) for name, value in sorted(result.environment.items())
            },
            probed=_make_portable(result.probed, root, project),
        )
        earlier = [action.implicit_deps for action in self.store.list_actions(self.step.key)]
        return carry_over(implicit_deps, earlier, root, files, secrets, exact)


class StageEnd(Record, frozen=True):
    """End of a stage on whichever machine."""

    step: Step
    outcome: Action | StageError | None  # its result or its error; None if it starts again
    stored: bool = False  # whether its machine had the result already, so that nothing ran


def _sign_declared(pipeline: Pipeline, store: Store, step: Step) -> dict[str, Signature | None]:
    """Return the signature of each file that the parameters of a stage name, or that is in a folder that they name."""
    paths = [pipeline.root / reference.path for reference in step.stage.references]
    return {name: seen for path in paths for name, seen in store.files.read_signatures(path).items()}


def _make_portable(by_path: Mapping[str, Value], root: Path, project: Path) -> dict[str, Value]:
    """Replace absolute paths by paths that are the same in every checkout."""
    return {to_portable_name(Path(path), root, project): value for path, value in sorted(by_path.items())}
