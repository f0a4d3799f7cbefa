"""Reproducibility check: stages are built again and compared with their stored results.

Each stage gets the stored inputs, another hash seed and folders with other names. Nothing is stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Literal

from orun.core.metrics import Metric
from orun.core.reason import Reason
from orun.environment.env_vars import HASH_SEED, set_variable
from orun.errors import StageError, UsageError
from orun.executors import Finished, JobResult, LocalExecutor, Mask
from orun.fs.machine_locks import MachineClaim, build_machine_lock
from orun.fs.os_errors import quote
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.runner.stage_execution import StageExecution
from orun.store import Action, Entry
from orun.store.layout import format_command_options
from orun.text.suggestions import show_path

POLL_SECONDS = 0.05  # between two tries of the machine lock
HASH_SEEDS = ("31337", "1")  # the first that differs from the seed of stages is used

Verdict = Literal["identical", "differs", "not rebuildable", "failed"]


@dataclass(frozen=True)
class Changed:
    """File that differs: its path, and its sizes as stored and as rebuilt; None if it does not exist there."""

    path: str
    stored: int | None
    rebuilt: int | None


@dataclass(frozen=True)
class Rebuilt:
    """Comparison of a rebuilt stage with its stored result.

    Attributes:
        stage: its id.
        uses: its kind.
        verdict: whether artifact and metrics are identical.
        why: one sentence if the stage was not rebuilt or failed.
        reasons: why the stage has no result to compare with.
        declared: whether its kind is declared nondeterministic.
        stored: digest of the stored artifact.
        rebuilt: digest of the rebuilt artifact; empty if there is none.
        size: bytes of the stored artifact.
        files: the files that differ, by path.
        metrics: the metrics that differ: name -> value as stored and as rebuilt, None if missing there.
    """

    stage: str
    uses: str
    verdict: Verdict
    why: str = ""
    reasons: tuple[Reason, ...] = ()
    declared: bool = False
    stored: str = ""
    rebuilt: str = ""
    size: int = 0
    files: tuple[Changed, ...] = ()
    metrics: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether the kind keeps its promise."""
        return self.verdict != "failed" and (self.verdict != "differs" or self.declared)


def rebuild(planner: Planner, chosen: Collection[str], report: Callable[[Rebuilt], None]) -> tuple[Rebuilt, ...]:
    """Build the chosen stages again, compare them with their stored results, and report each comparison once made.

    Raises:
        UsageError: if a chosen stage has no stored result.
        StoreError: if the store fails.
    """
    store = planner.store
    logs = store.make_session_folder("logs")  # from now on garbage collection keeps what is read
    plan = planner.plan()
    steps = [step for step in plan.steps if step.stage.id in chosen]
    _require_stored(planner, [step for step in steps if step.action not in ("cached", "skipped", "blocked")])
    done = {
        step.stage.id: Done(step, action, planner.judge(step.stage, action))
        for step in plan.steps
        if (action := step.cached_action)
    }
    comparisons = []
    other_seed = next(seed for seed in HASH_SEEDS if seed != os.environ.get(HASH_SEED))
    with set_variable(HASH_SEED, other_seed), LocalExecutor() as executor:
        for step in steps:
            comparisons.append(_Rebuilding(planner, executor, done, logs).compare(step))
            report(comparisons[-1])
    return tuple(comparisons)


@dataclass(frozen=True)
class _Rebuilding:
    planner: Planner
    executor: LocalExecutor
    done: Mapping[str, Done]
    logs: Path

    def compare(self, step: Step) -> Rebuilt:
        stage, spec = step.stage, self.planner.pipeline.kinds[step.stage.uses].spec
        if step.cached_action is None:
            return Rebuilt(stage.id, stage.uses, "not rebuildable", reasons=step.reasons)
        if spec.stage_class == "measurement":
            return Rebuilt(stage.id, stage.uses, "not rebuildable", "it measures, and no two measurements are alike")
        if spec.publishes:
            return Rebuilt(stage.id, stage.uses, "not rebuildable", "it publishes a release, and would do so again")
        try:
            pipeline = self.planner.pipeline
            claim = MachineClaim(os.getpid(), str(pipeline.project), pipeline.name, stage.id, step.seconds)
            with build_machine_lock(spec.exclusive, claim) as machine:
                while not machine.try_acquire():
                    sleep(POLL_SECONDS)
                return self._rebuild_and_compare(step, step.cached_action)
        except StageError as error:
            Mask.of(self.planner.pipeline.private).hide_in_error(error)
            why = "; ".join(filter(None, (error.problem, *error.why.splitlines())))
            return Rebuilt(stage.id, stage.uses, "failed", why, stored=step.cached_action.tree)

    def _rebuild_and_compare(self, step: Step, stored: Action) -> Rebuilt:
        store, spec = self.planner.store, self.planner.pipeline.kinds[step.stage.uses].spec
        execution = StageExecution.prepare(self.planner.pipeline, store, step, self.logs)
        try:
            result = self._run(execution)
            execution.require_unchanged()
            rebuilt = store.describe(execution.session_folder / "output")
        finally:
            execution.discard()
        tree = store.read_tree(stored.tree)
        files = tuple(_iter_changed_files(tree.entries if tree else (), rebuilt.entries))
        metrics = dict(_iter_changed_metrics(stored.metrics, result.metrics))
        return Rebuilt(
            step.stage.id,
            step.stage.uses,
            "differs" if files or metrics else "identical",
            declared=not spec.deterministic,
            stored=stored.tree,
            rebuilt=rebuilt.digest,
            size=stored.size,
            files=files,
            metrics=metrics,
        )

    def _run(self, execution: StageExecution) -> JobResult:
        for environment in execution.step.stage.environments:
            from orun.environment import venv_builder

            venv_builder.make(environment)
        self.executor.start(execution.build_job(self.done))
        while True:
            for message in self.executor.wait():
                if isinstance(message, Finished):
                    if isinstance(message.result, StageError):
                        raise message.result
                    return message.result


def _require_stored(planner: Planner, missing: Sequence[Step]) -> None:
    if missing:
        pipeline = planner.pipeline
        options = format_command_options(pipeline.overrides, planner.store.root, pipeline.root)
        names = ", ".join(step.stage.id for step in missing)
        raise UsageError(
            f"{missing[0].stage.id} has no stored result to compare with",
            why=f"not up to date: {names}",
            hint=f"orun {quote(show_path(str(pipeline.file)))}{options}",
        )


def _iter_changed_files(stored: Iterable[Entry], rebuilt: Iterable[Entry]) -> Iterator[Changed]:
    before, after = ({entry.path: entry for entry in entries} for entries in (stored, rebuilt))
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            yield Changed(path, old.size if old else None, new.size if new else None)


def _iter_changed_metrics(
    stored: Mapping[str, Metric], rebuilt: Mapping[str, Metric]
) -> Iterator[tuple[str, tuple[float | None, float | None]]]:
    """Yield the metrics that differ, except timings."""
    for name in sorted({*stored, *rebuilt}):
        old, new = stored.get(name), rebuilt.get(name)
        if any(metric and metric.noise == "timing" for metric in (old, new)):
            continue
        values = old.value if old else None, new.value if new else None
        if values[0] != values[1]:
            yield name, values
