"""Runner of a plan: one thread, one loop, until every stage is settled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from orun.core.events import Event
from orun.core.serialization import replace
from orun.environment.resources import Resources
from orun.executors import Executor, Mask
from orun.pipeline.model import Stage
from orun.planning.plan import Plan
from orun.planning.planner import Planner
from orun.runner.local_stages import LocalStages
from orun.runner.output_checkouts import OutputCheckouts
from orun.runner.run_outcome import RunOutcome
from orun.runner.scheduler import Schedule
from orun.runner.stage_execution import StageEnd
from orun.runner.stage_locks import LockMode, RunLocks, choose_lock_mode
from orun.runner.stage_reports import StageReports
from orun.runner.stage_starter import StageStarter

if TYPE_CHECKING:
    from orun.remote.sync import Sync
    from orun.runner.fleet import FleetRun
    from orun.runner.orders import Orders

PAUSE_SECONDS = 1.0  # between two writes of the index while stages come and go
IDLE_SECONDS = 0.25  # for which a run waits for other machines at a time
POLL_SECONDS = 0.05  # between two tries of a lock that another process holds


@dataclass
class Runner:
    """Brings the stages of a plan up to date."""

    planner: Planner
    executor: Executor
    emit: Callable[[Event], None]
    logs: Path
    resources: Resources  # what the run may use of the machine
    keep_going: bool  # whether a failed stage stops only the stages after it
    allowed: Collection[str]  # ids of stages that may run; the others must be up to date
    remote: Sync | None
    fleet: FleetRun | None

    def __post_init__(self) -> None:
        pipeline, store = self.planner.pipeline, self.planner.store
        outputs = OutputCheckouts(store, pipeline.name)
        self.outcome = RunOutcome(self.planner, self.emit, outputs, self.remote)
        self._locks = RunLocks(store, self.emit, str(pipeline.project), pipeline.name)
        self._reports = StageReports(pipeline.private, self.emit, Mask.of(pipeline.private))
        self._orders = self._make_orders(self.fleet) if self.fleet else None
        self._local = LocalStages(self.planner, self.executor, self.emit, self.logs, self._reports)
        self._seconds: dict[str, float] = {}

    def _make_orders(self, fleet: FleetRun) -> Orders:
        from orun.runner.orders import Orders

        assert self.remote  # noqa: S101 - results of other machines travel through it
        return Orders(fleet, self.planner, self.remote, self.logs, self.emit, self._reports)

    def run(self, plan: Plan) -> None:
        """Run until every stage is settled.

        Raises:
            StoreError: if the store fails; running stages are stopped.
            KeyboardInterrupt: if the user stops the run; running stages are stopped.
        """
        self.planner.store.pause(PAUSE_SECONDS)
        stages = tuple(step.stage for step in plan.steps)
        self._seconds = {step.stage.id: step.seconds for step in plan.steps if step.seconds is not None}
        # One GPU at least: a driver may hide it, and preflight has found the provider.
        here = replace(self.resources, gpus=max(self.resources.gpus, 1))
        self._schedule = Schedule(stages, self._seconds, here, queue_of=self._choose_queue)
        self._starter = StageStarter(
            self.planner,
            self._schedule,
            self._locks,
            self.outcome,
            self._local,
            self._choose_lock_mode,
            self.keep_going,
            self.allowed,
            {step.stage.id: step for step in plan.steps},
            self.remote,
            self._orders,
        )
        if self._orders:
            self._schedule.machines = self._orders.choice.list_resources()
            self._orders.remote.leave(find_left_results(self.planner, stages))
        self.outcome.find_guards(stages)
        try:
            while not self._schedule.finished:
                self._advance()
            self.outcome.settle_outputs()
        finally:
            if self.fleet:
                self.fleet.fleet.close()
            self._local.close()
            self._locks.release_all()
            self.planner.store.pause(0.0)
            self.planner.store.flush()
            del self._schedule, self._starter  # they refer to this object, which would keep the store open

    def _advance(self) -> None:
        """Settle and start every stage that can be, then wait for the next message or lock."""
        if self.remote:
            self.remote.uploads.gather()
        waiting = self._start_ready()
        self.outcome.emit_store_notices()
        if self._orders:
            self._orders.look()
        for end in self._receive(waiting=waiting):
            self._starter.end(end)
        if self._orders and self._orders.drain_news():
            self._starter.use_new_facts(self._orders)

    def _receive(self, *, waiting: bool) -> Iterator[StageEnd]:
        """Wait for the next message, briefly if a stage waits for another process; yield the stages that have ended."""
        done = self.outcome.done
        if self._orders and (self._orders.active or self._orders.setbacks.waiting):
            timeout = POLL_SECONDS if waiting or self._local.active else IDLE_SECONDS
            for end in self._local.receive(0.0, done):
                timeout = 0.0
                yield end
            yield from self._orders.receive(timeout, done)
        elif self._local.active:
            yield from self._local.receive(POLL_SECONDS if waiting else None, done)
        elif waiting and self.remote:
            self.remote.wait(POLL_SECONDS)
        elif waiting:
            sleep(POLL_SECONDS)

    def _start_ready(self) -> bool:
        """Settle and start every stage that can be; return whether one waits for another process.

        A stage is tried when it becomes ready, and again while it waits, or is the first of its queue. To try all ready
        stages at every event would take n^2 tries for a fan of n stages.
        """
        self._locks.refused.clear()
        while True:
            for stage in self._schedule.drain_new():
                self._starter.try_stage(stage, start=False)
            for stage in tuple(self._starter.waiting.values()):  # on several machines they start in their turn, below
                self._starter.try_stage(stage, start=not self._orders)
            self._starter.fetch_more()
            self._schedule.offer(self._try_start)
            if not self._schedule.has_new:
                return bool(self._starter.waiting)

    def _try_start(self, stage: Stage) -> bool:
        """Try to start a ready stage; return whether the next one of its queue may be able to start."""
        starter = self._starter
        if stage.id in starter.waiting:
            return not (self._orders and starter.waits_briefly(stage))
        if starter.is_unfetched(stage):
            return True
        if not self._locks.may_try(self._choose_lock_mode(stage)):
            return False
        starter.try_stage(stage)
        return stage.id in starter.waiting or not self._schedule.is_ready(stage.id)

    def _choose_queue(self, stage: Stage) -> Hashable:
        """Return what decides whether a ready stage can start: its machines, and what it needs of them."""
        machines = self.planner.find_candidates(stage).machines if self._orders else ()
        return machines, self._choose_lock_mode(stage), stage.cpus, stage.memory, stage.gpus

    def _choose_lock_mode(self, stage: Stage) -> LockMode:
        if self._orders and not self._orders.choice.runs_here(stage):
            return LockMode.REMOTE
        return choose_lock_mode(self.planner.pipeline.kinds[stage.uses].spec, stage, self._seconds.get(stage.id))


def find_left_results(planner: Planner, stages: tuple[Stage, ...]) -> frozenset[str]:
    """Return the stages of a run whose files are needed by stages on other machines alone, and stay in the remote.

    What no stage builds on is what the user is after, and comes to this machine. Measurements build on nothing.
    """
    builders = [stage for stage in stages if planner.pipeline.kinds[stage.uses].spec.output != "metrics"]
    built_on = {name for stage in builders for name in stage.needs.values()}
    needed_here = {name for stage in stages if planner.explain_here(stage) for name in stage.needs.values()}
    return frozenset(built_on - needed_here)
