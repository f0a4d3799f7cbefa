"""Reproducibility check: stages built once more and compared with what is stored.

Each stage gets the stored artifacts of the stages before it, and runs in a process with another hash seed and in
folders of other names. Nothing of it is stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Literal

from orun.core.metrics import Metric
from orun.environment.env_vars import variable
from orun.errors import StageError, UsageError
from orun.executors import LocalExecutor
from orun.executors.job import Finished, JobResult
from orun.executors.masking import Mask
from orun.fs.os_errors import quoted
from orun.planning.plan import Done, Plan, Step
from orun.planning.planner import Planner
from orun.planning.provenance import Lineage
from orun.runner.stage_execution import Attempt
from orun.store import Action, Entry, MachineClaim, Store, machine_lock

POLL_SECONDS = 0.05  # how often the machine is asked for again while another process measures
HASH_SEEDS = ("31337", "1")  # another than the one that stages have: the first that differs

Verdict = Literal["identical", "differs", "not rebuildable", "failed"]


@dataclass(frozen=True)
class Changed:
    """A file that differs: its path, and its bytes as stored and as rebuilt; None where there is no such file."""

    path: str
    stored: int | None
    rebuilt: int | None


@dataclass(frozen=True)
class Rebuilt:
    """What became of one stage.

    Attributes:
        stage: its id.
        uses: its kind.
        verdict: whether the rebuilt artifact and metrics are those that are stored.
        why: one sentence on a stage that was not rebuilt, or that failed.
        declared: whether its kind says that it is not deterministic.
        stored: digest of the stored artifact.
        rebuilt: digest of the new one; empty when there is none.
        size: bytes of the stored artifact.
        files: those that differ, by path.
        metrics: those that differ: name -> value as stored and as rebuilt, None where there is none.
    """

    stage: str
    uses: str
    verdict: Verdict
    why: str = ""
    declared: bool = False
    stored: str = ""
    rebuilt: str = ""
    size: int = 0
    files: tuple[Changed, ...] = ()
    metrics: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether it is as its kind promises."""
        return self.verdict != "failed" and (self.verdict != "differs" or self.declared)


def rebuild(planner: Planner, chosen: Collection[str], report: Callable[[Rebuilt], None]) -> tuple[Rebuilt, ...]:
    """Build the chosen stages once more and compare.

    Args:
        planner: of the pipeline and the store.
        chosen: ids of stages.
        report: called with each stage as soon as it is known.

    Raises:
        UsageError: when nothing is stored that one of them could be compared with.
        StoreError: when the store cannot be used.
    """
    store = planner.store
    logs = store.scratch("logs")  # from now on a collection spares what is looked at
    plan = planner.plan()
    steps = [step for step in plan.steps if step.stage.id in chosen]
    _require_stored(plan, [step for step in steps if step.action not in ("cached", "skipped", "blocked")])
    done = {step.stage.id: Done(step, step.hit, planner.judge(step.stage, step.hit)) for step in plan.steps if step.hit}
    found = []
    with _other_hash_seed(), LocalExecutor() as executor:
        for step in steps:
            found.append(_Rebuilding(planner, executor, done, logs).result(step))
            report(found[-1])
    return tuple(found)


@dataclass(frozen=True)
class _Rebuilding:
    planner: Planner
    executor: LocalExecutor
    done: Mapping[str, Done]
    logs: Path

    def result(self, step: Step) -> Rebuilt:
        stage, spec = step.stage, self.planner.pipeline.kinds[step.stage.uses].spec
        if step.hit is None:
            return Rebuilt(stage.id, stage.uses, "not rebuildable", "; ".join(step.reasons))
        if spec.stage_class == "measurement":
            return Rebuilt(stage.id, stage.uses, "not rebuildable", "it measures, and no two measurements are alike")
        if spec.gives:
            return Rebuilt(stage.id, stage.uses, "not rebuildable", "it gives a release away, and would do so again")
        try:
            pipeline = self.planner.pipeline
            claim = MachineClaim(os.getpid(), str(pipeline.project), pipeline.name, stage.id, step.seconds)
            with machine_lock(spec.exclusive, claim) as machine:
                while not machine.try_acquire():
                    sleep(POLL_SECONDS)
                return self._compared(step, step.hit)
        except StageError as error:
            Mask.of(self.planner.pipeline.private).error(error)
            why = "; ".join(filter(None, (error.what, *error.why.splitlines())))
            return Rebuilt(stage.id, stage.uses, "failed", why, stored=step.hit.tree)

    def _compared(self, step: Step, stored: Action) -> Rebuilt:
        store, spec = self.planner.store, self.planner.pipeline.kinds[step.stage.uses].spec
        attempt = Attempt.begin(self.planner.pipeline, store, step, self.logs)
        try:
            result = self._run(attempt)
            attempt.require_unchanged()
            fresh = store.describe(attempt.scratch / "output")
        finally:
            attempt.discard()
        files = tuple(_changed(_entries(store, stored), {entry.path: entry for entry in fresh.entries}))
        metrics = dict(_differing(stored.metrics, result.metrics))
        return Rebuilt(
            step.stage.id,
            step.stage.uses,
            "differs" if files or metrics else "identical",
            declared=not spec.deterministic,
            stored=stored.tree,
            rebuilt=fresh.digest,
            size=stored.size,
            files=files,
            metrics=metrics,
        )

    def _run(self, attempt: Attempt) -> JobResult:
        stage = attempt.step.stage
        for environment in stage.environments:
            from orun.environment import venv_builder

            venv_builder.make(environment)
        lineage = Lineage.of(self.planner.pipeline, stage, self.done)
        self.executor.start(attempt.job(lineage.text() if lineage else b""))
        while True:
            for message in self.executor.wait():
                if isinstance(message, Finished):
                    if isinstance(message.result, StageError):
                        raise message.result
                    return message.result


def _other_hash_seed() -> AbstractContextManager[None]:
    """Processes that start meanwhile iterate sets in another order than those of a run."""
    name = "PYTHONHASHSEED"
    return variable(name, next(seed for seed in HASH_SEEDS if seed != os.environ.get(name)))


def _require_stored(plan: Plan, missing: Sequence[Step]) -> None:
    if missing:
        names = ", ".join(step.stage.id for step in missing)
        raise UsageError(
            f"nothing is stored that a rebuilt {missing[0].stage.id} could be compared with",
            why=f"not up to date: {names}",
            hint=f"orun {quoted(plan.pipeline.file)}",
        )


def _entries(store: Store, action: Action) -> dict[str, Entry]:
    tree = store.tree(action.tree)
    return {entry.path: entry for entry in tree.entries} if tree else {}


def _changed(stored: Mapping[str, Entry], fresh: Mapping[str, Entry]) -> Iterator[Changed]:
    for path in sorted({*stored, *fresh}):
        old, new = stored.get(path), fresh.get(path)
        if old != new:
            yield Changed(path, old.size if old else None, new.size if new else None)


def _differing(
    stored: Mapping[str, Metric], fresh: Mapping[str, Metric]
) -> Iterator[tuple[str, tuple[float | None, float | None]]]:
    """The metrics that differ, but for those that the machine disturbs."""
    for name in sorted({*stored, *fresh}):
        old, new = stored.get(name), fresh.get(name)
        if any(metric and metric.noise == "timing" for metric in (old, new)):
            continue
        values = old.value if old else None, new.value if new else None
        if values[0] != values[1]:
            yield name, values
