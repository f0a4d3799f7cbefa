"""Starter of stages: settles a ready stage that need not or must not run, and starts any other once it can.

A stage is decided again once its inputs are known, and once more under the lock of its key, because another process may
have built the result meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Outcome
from orun.core.serialization import replace
from orun.errors import ArtifactDamaged, StageError, StageFailed
from orun.pipeline.model import Stage
from orun.planning.implicit_deps import build_changing_error
from orun.planning.key_diff import list_key_changes
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.runner.local_stages import LocalStages
from orun.runner.run_outcome import RunOutcome
from orun.runner.scheduler import Schedule
from orun.runner.stage_execution import StageEnd
from orun.runner.stage_locks import SAME_STAGE, LockMode, RunLocks
from orun.runner.undeclared_writes import IsolationCheck
from orun.store import Action

if TYPE_CHECKING:
    from orun.remote.download import Downloads
    from orun.remote.sync import Sync
    from orun.runner.orders import Orders

MOST_CHANGES = 5  # of a stage's dependencies between its decision and its start
BRIEF_SECONDS = 0.5  # for which an answer of the remote is worth waiting for


@dataclass
class StageStarter:
    """Settles and starts the stages of a run, one at a time."""

    planner: Planner
    schedule: Schedule
    locks: RunLocks
    outcome: RunOutcome
    local: LocalStages
    lock_mode: Callable[[Stage], LockMode]
    keep_going: bool  # whether a failed stage stops only the stages after it
    allowed: Collection[str]  # ids of stages that may run; the others must be up to date
    planned: Mapping[str, Step]  # decisions of the plan, by id
    remote: Sync | None
    orders: Orders | None
    waiting: dict[str, Stage] = field(default_factory=dict)  # stages that wait for the remote or another process, by id
    _unfetched: dict[str, Stage] = field(default_factory=dict)  # to look for in the remote, once that is less busy
    _waits_since: dict[str, float] = field(default_factory=dict)
    _steps: dict[str, Step] = field(default_factory=dict)
    _changes: Counter[str] = field(default_factory=Counter)
    _stop_reason: Reason | None = None

    def try_stage(self, stage: Stage, *, start: bool = True) -> None:
        """Settle a ready stage, or start it if allowed; note whether it waits for the remote or another process."""
        if self._settle_or_start(stage, start=start):
            self.waiting[stage.id] = stage
            self._waits_since.setdefault(stage.id, monotonic())
        else:
            self.waiting.pop(stage.id, None)
            self._waits_since.pop(stage.id, None)
            if self.orders:
                self.orders.setbacks.stop_lacking(stage.id)

    def fetch_more(self) -> None:
        """Look for results in the remote that it was too busy for."""
        while self._unfetched and not (self.remote and self.remote.downloads.full):
            stage = self._unfetched.pop(next(iter(self._unfetched)))
            if self.schedule.is_ready(stage.id):
                self.try_stage(stage, start=False)

    def is_unfetched(self, stage: Stage) -> bool:
        """Return whether a stage's result is still to be looked for in the remote."""
        return stage.id in self._unfetched

    def waits_briefly(self, stage: Stage) -> bool:
        """Return whether a stage has only begun to wait, so that those with shorter paths should not overtake it."""
        return monotonic() - self._waits_since[stage.id] < BRIEF_SECONDS

    def end(self, end: StageEnd) -> None:
        """Settle a stage that has ended, or let it start again."""
        step, name, outcome = end.step, end.step.stage.id, end.outcome
        if isinstance(outcome, StageError):
            self._fail(step, self.local.reports.mask.hide_in_error(outcome))
        elif outcome and end.stored:
            reasons = build_reason(ReasonCode.ON_MACHINE, machine=step.machine), build_reason(ReasonCode.UP_TO_DATE)
            self._finish(replace(step, reasons=reasons), outcome, "cached")
        elif outcome:
            self._finish(step, outcome, "built")
        else:
            self.schedule.stop(name)
        self.locks.release(name)
        if self.orders and not isinstance(outcome, Action):
            self.use_new_facts(self.orders)

    def use_new_facts(self, orders: Orders) -> None:
        """Decide again on what does not run: machines may be gone, and facts may have changed."""
        self._steps = {name: step for name, step in self._steps.items() if name in self.schedule.running}
        busy = {step.machine for step in self._steps.values()}
        kept = {name: limit for name, limit in self.schedule.machines.items() if name in busy}
        self.schedule.machines = kept | orders.choice.list_resources()
        self.schedule.sort_again()

    def _settle_or_start(self, stage: Stage, *, start: bool) -> bool:
        """Do what `try_stage` says; return whether the stage waits."""
        if blocker := self.outcome.find_blocker(stage) or self._stop_reason:
            skipped = any(self.outcome.results[name].outcome == "skipped" for name in stage.upstream)
            self._settle_not_run(stage, "skipped" if skipped else "blocked", (blocker,))
            return False
        step = self._steps.get(stage.id) or self.planner.decide(stage, self.outcome.done, self.planned[stage.id])
        self._steps[stage.id] = step
        if step.action == "skipped":
            self._settle_not_run(stage, "skipped", step.reasons)
        elif step.cached_action:
            self._reuse(step, step.cached_action)
        elif self.remote and self.remote.downloads.wants(step):
            return self._fetch(step, self.remote.downloads)
        elif self.orders and not step.key and stage.id in self.allowed:
            if error := self.orders.find_lack(stage):
                self._fail(step, error)
            else:
                return True
        elif stage.id not in self.allowed or not step.key:
            self._settle_not_run(stage, "blocked", (build_reason(ReasonCode.NOT_SELECTED), *step.reasons))
        elif start and self.orders and step.machine:
            return self._send(self.orders, step)
        elif start and self.schedule.fits(stage) and not self._must_run_later(stage):
            return self._lock_and_start(step)
        return False

    def _send(self, orders: Orders, step: Step) -> bool:
        """Start a stage on another machine if one is free; return whether the stage waits."""
        stage = step.stage
        machine = orders.choice.choose(step, self.schedule, self.outcome.done)
        if not machine:
            return False
        if machine != step.machine and not orders.choice.are_alike(stage, machine, step.machine):
            self._steps[stage.id] = self.planner.decide_for(stage, self.outcome.done, step, machine)
            return self._settle_or_start(stage, start=True)
        step = self._steps[stage.id] = replace(step, machine=machine)
        try:
            if not orders.share_inputs(step, self.outcome.done):
                return True
        except StageError as error:
            self._fail(step, error)
            return False
        return self._lock_and_start(step)

    def _must_run_later(self, stage: Stage) -> bool:
        """Return whether an exclusive stage lets shared stages of this run go first."""
        if self.lock_mode(stage) is not LockMode.EXCLUSIVE:
            return False
        ready = (each for each in self.schedule.list_ready() if each.id in self.allowed)
        return bool(self.schedule.running) or any(self.lock_mode(each) is not LockMode.EXCLUSIVE for each in ready)

    def _lock_and_start(self, step: Step) -> bool:
        """Acquire the locks, decide again, and start; return whether the stage waits for another process."""
        stage = step.stage
        locks = self.locks.prepare_locks(step, self.lock_mode(stage))
        if holder := self.locks.try_acquire(locks):
            self.locks.report_waiting(stage.id, holder)
            return True
        before, step = step, self._decide_again(step)  # another process may have built it
        self._steps[stage.id] = step
        if step.cached_action:
            self.locks.release(stage.id)
            return self._settle_or_start(stage, start=True)
        if step.key != locks.key:  # a file has changed
            self.locks.release(stage.id)
            self._changes[stage.id] += 1
            if self._changes[stage.id] < MOST_CHANGES:
                return self._settle_or_start(stage, start=True)
            self._fail(
                step, build_changing_error(stage.id, list_key_changes(stage, before.components, step.components))
            )
            return False
        self.schedule.start(stage, step.machine)
        if self.orders and step.machine:
            self.orders.start(step, self.outcome.done)
        else:
            self._start_here(step)
        return False

    def _start_here(self, step: Step) -> None:
        try:
            self.local.start(step, self.outcome.done)
        except ArtifactDamaged as error:  # by another stage of this run
            self.end(StageEnd(step, StageFailed(step.stage.id, error.problem, why=error.why, hint=error.hint)))

    def _decide_again(self, step: Step) -> Step:
        stage, done = step.stage, self.outcome.done
        if self.orders:
            return self.planner.decide_for(stage, done, step, step.machine)
        return self.planner.decide(stage, done, step)

    def _fetch(self, step: Step, downloads: Downloads) -> bool:
        """Continue to ask the remote for a result, under the lock of its key; return whether the answer is pending."""
        stage = step.stage
        if downloads.full and stage.id not in self.waiting:
            self._unfetched[stage.id] = stage
            return False
        if not self.locks.prepare_locks(step, self.lock_mode(stage)).key_lock.try_acquire():
            self.locks.report_waiting(stage.id, SAME_STAGE)
            return True
        if not downloads.fetch(step):
            return True
        self.locks.release(stage.id)
        if self.planner.store.list_actions(step.key):
            del self._steps[stage.id]  # decided again: a result is in the store now
        return self._settle_or_start(stage, start=False)

    def _reuse(self, step: Step, action: Action) -> None:
        """Use a stored result, unless it depends on an undeclared write of another run."""
        try:
            check = IsolationCheck(self.planner.pipeline, self.outcome.done, self.planner.store)
            check.require(step.stage, action.implicit_deps, action.wrote)
        except StageError as error:
            self._fail(step, error)
        else:
            self._finish(step, action, "cached")

    def _finish(self, step: Step, action: Action, outcome: Outcome) -> None:
        self.outcome.add_up_to_date(step, action, outcome)
        self.schedule.settle(step.stage.id)

    def _fail(self, step: Step, error: StageError) -> None:
        self._stop_reason = None if self.keep_going else build_reason(ReasonCode.STOPPED)
        self.outcome.add_failure(step, error)
        self.schedule.settle(step.stage.id)

    def _settle_not_run(self, stage: Stage, outcome: Outcome, reasons: tuple[Reason, ...]) -> None:
        self.outcome.add_not_run(stage, outcome, reasons)
        self.schedule.settle(stage.id)
