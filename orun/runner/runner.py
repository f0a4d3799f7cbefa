"""Runner of a plan: starts stages, stores their results, judges the gates, and reports it all in events.

One thread, one loop. A stage is decided again when its turn comes, because by then its inputs are known, and once more
under the lock of its key, because another process may have done the work meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from orun.core.events import Event, GateJudged, Notice, StageFinished, StageProgress, StageStarted
from orun.core.run_record import VERBS, Outcome, StageResult, Verdict
from orun.core.serialization import replace
from orun.environment.resources import Room
from orun.errors import Interrupted, StageError
from orun.executors import Executor
from orun.executors.job import Finished, JobResult, Progress, traced_in_part
from orun.executors.masking import Mask
from orun.fs.os_errors import refusals
from orun.pipeline.graph import reached
from orun.pipeline.model import Stage
from orun.planning.implicit_deps import never_at_rest
from orun.planning.key_diff import key_changes
from orun.planning.plan import Done, Plan, Step
from orun.planning.planner import Planner
from orun.planning.provenance import Lineage
from orun.runner.output_checkouts import Outs, namesake, withdraw_gone
from orun.runner.scheduler import Schedule
from orun.runner.stage_execution import Attempt
from orun.runner.stage_locks import SAME_STAGE, SHORT, Turn, Turns
from orun.runner.stage_results import failed, left, up_to_date
from orun.runner.undeclared_writes import Apart
from orun.store import Action, Store

if TYPE_CHECKING:
    from orun.remote.sync import Sync

PAUSE_SECONDS = 1.0  # between two times that the index is written while stages come and go
IDLE_SECONDS = 0.25  # without a word from a stage, after which there is time for what was put off
MOST_CHANGES = 5  # of what a stage depends on, each between a decision and the start that it led to
POLL_SECONDS = 0.05  # how often a lock that another process holds is tried again
GUESS = (
    "{stage} looks up {name}, which is taken for a secret by its name: no result depends on its value; "
    "list it under `secrets` of the file, or under `env` of the stage if its result depends on it"
)


@dataclass
class Runner:
    """Brings the stages of a plan up to date.

    Attributes:
        planner: decides.
        store: where results go.
        executor: where processes run.
        emit: takes each event.
        logs: folder of the logs of this run.
        room: what of the machine the run may keep busy.
        keep_going: whether a failed stage stops only what is after it.
        allowed: ids of stages that may run; the others must be up to date.
        remote: where results of other machines are, if anywhere.
        results: what became of each stage so far.
        verdicts: of the gates judged so far.
        done: the stages that are up to date so far.
    """

    planner: Planner
    store: Store
    executor: Executor
    emit: Callable[[Event], None]
    logs: Path
    room: Room
    keep_going: bool = False
    allowed: Collection[str] = ()
    remote: Sync | None = None
    results: dict[str, StageResult] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    done: dict[str, Done] = field(default_factory=dict)

    def run(self, plan: Plan) -> tuple[StageResult, ...]:
        """Run until every stage is settled; results are in the order of the plan.

        Raises:
            StoreError: when the store fails; stages that run are stopped.
            Interrupted: when the user stops it; likewise.
        """
        self._attempts: dict[str, Attempt] = {}
        project, name = str(self.planner.pipeline.project), self.planner.pipeline.name
        self._turns = Turns(self.store, self.emit, project, name)
        self._steps: dict[str, Step] = {}
        self._waiting: dict[str, Stage] = {}
        self._changes: Counter[str] = Counter()
        self._stopped = False
        self._mask = Mask.of(self.planner.pipeline.private)
        self._warned: set[str] = set()
        self._untraced = ""
        self.store.pause(PAUSE_SECONDS)
        seconds = {step.stage.id: step.seconds for step in plan.steps if step.seconds is not None}
        stages, room = tuple(step.stage for step in plan.steps), self.room
        self._schedule = Schedule(stages, seconds, room.cores, room.memory, max(room.gpus, 1))  # one that hides
        self._outs = Outs(self.store, plan.pipeline.name)
        releases = [one for one in stages if self.planner.releases(one) and not self.planner.left_out(one)]
        self._released = reached(
            [name for one in releases for name in one.before], {one.id: one.before for one in stages}
        )
        try:
            while not self._schedule.finished:
                self._advance()
            for notice in self._outs.put_back():
                self.emit(Notice("warning", notice))
            if taken := namesake(self.store, plan.pipeline):
                self.emit(Notice("warning", taken))
            for notice in withdraw_gone(self.store, plan.pipeline):
                self.emit(Notice("info", notice))
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        finally:
            if self._attempts:
                self.executor.close()  # nothing may write into a scratch folder any more
            for attempt in self._attempts.values():
                self._mask_log(attempt)
                attempt.discard()
            self._turns.end_all()
            self.store.pause(0.0)
            self.store.flush()
        return tuple(self.results[step.stage.id] for step in plan.steps)

    def _advance(self) -> None:
        waiting = self._try_all()
        self._pass_on_notices()
        if self.remote:
            self.remote.gather()
        if self._attempts:
            self._listen(POLL_SECONDS if waiting else None)
        elif waiting and self.remote:
            self.remote.wait(POLL_SECONDS)
        elif waiting:
            sleep(POLL_SECONDS)

    def _listen(self, patience: float | None) -> None:
        """Wait for what stages say; the store writes what it has put off when they say nothing for a while."""
        heard = self.executor.wait(IDLE_SECONDS if patience is None else patience)
        if not heard and patience is None:
            self.store.flush()
            heard = self.executor.wait()
        for message in heard:
            self._hear(message)

    def _try_all(self) -> bool:
        """Settle and start what can be; whether a stage waits for another process.

        A stage is looked at when its turn may have come, and tried again while there is room for more or while it waits
        for others. To try all that are ready at every event would take n^2 looks at a fan of n stages.
        """
        self._turns.refused.clear()
        while True:
            for stage in self._schedule.news():
                self._try(stage, start=False)
            for stage in tuple(self._waiting.values()):
                self._try(stage)
            for stage in self._schedule.ready():
                if self._schedule.full or not self._turns.may_ask(exclusive=False, short=True):
                    break  # an exclusive turn wants more
                if stage.id not in self._waiting and self._may_ask(stage):
                    self._try(stage)
            if not self._schedule.has_news:
                return bool(self._waiting)

    def _try(self, stage: Stage, *, start: bool = True) -> None:
        """Settle a stage whose turn may have come, or start it if that is wanted; or note that it waits for others."""
        if self._go_on(stage, start=start):
            self._waiting[stage.id] = stage
        else:
            self._waiting.pop(stage.id, None)

    def _pass_on_notices(self) -> None:
        for notice in self.store.drain_notices():
            self.emit(Notice("warning", notice))

    def _go_on(self, stage: Stage, *, start: bool) -> bool:
        """`_try`; whether it waits for another process."""
        if blocker := self._blocker(stage):
            left_out = any(self.results[name].outcome == "skipped" for name in stage.upstream)
            self._settle(stage, "skipped" if left_out else "blocked", (blocker,))
            return False
        step = self._steps.get(stage.id) or self.planner.decide(stage, self.done)
        self._steps[stage.id] = step
        if step.action == "skipped":
            self._settle(stage, "skipped", step.reasons)
        elif step.hit:
            self._reuse(step, step.hit)
        elif self.remote and self.remote.wants(step):
            return self._fetch(step, self.remote)
        elif stage.id not in self.allowed or not step.key:
            self._settle(stage, "blocked", ("not up to date, and not asked for", *step.reasons))
        elif start and self._schedule.fits(stage) and not self._quieter_first(stage):
            return self._lock_and_start(step)
        return False

    def _blocker(self, stage: Stage) -> str:
        """Why a stage will not run although its turn has come; empty when it may."""
        for name in stage.before:
            outcome = self.results[name].outcome
            if outcome == "skipped" and name not in stage.upstream and not self.planner.pipeline.strict:
                continue
            if name not in self.done:
                return f"{name} {VERBS[outcome]}"
        if gate := self.planner.gate_before(stage, self.done):
            return gate
        return "another stage failed, and --keep-going is not set" if self._stopped else ""

    def _quieter_first(self, stage: Stage) -> bool:
        """Whether a stage that wants the machine for itself lets others of this run go first."""
        if not self._is_exclusive(stage):
            return False
        others = (one for one in self._schedule.ready() if one.id in self.allowed)
        return bool(self._schedule.running) or not all(map(self._is_exclusive, others))

    def _is_exclusive(self, stage: Stage) -> bool:
        return self.planner.pipeline.kinds[stage.uses].spec.exclusive

    def _lock_and_start(self, step: Step) -> bool:
        """Take the locks, look again, and start; whether it must wait for another process."""
        stage = step.stage
        turn = self._turn(step)
        if holder := self._turns.waits_for(turn):
            self._turns.say(stage.id, holder)
            return True
        before, step = step, self.planner.decide(stage, self.done, step)  # another process may have done it meanwhile
        self._steps[stage.id] = step
        if step.hit:
            self._turns.end(stage.id)
            return self._go_on(stage, start=True)
        if step.key != turn.key:  # a file has changed
            self._turns.end(stage.id)
            self._changes[stage.id] += 1
            if self._changes[stage.id] < MOST_CHANGES:
                return self._go_on(stage, start=True)
            self._fail(step, never_at_rest(stage.id, key_changes(stage, before.parts, step.parts)))
            return False
        self._start(step)
        return False

    def _fetch(self, step: Step, remote: Sync) -> bool:
        """Go on asking the remote for a result, under the lock of its key; whether there is no answer yet."""
        stage = step.stage
        turn = self._turn(step)
        if not turn.lock.try_acquire():
            self._turns.say(stage.id, SAME_STAGE)
            return True
        if not remote.fetch(step):
            return True
        self._turns.end(stage.id)
        del self._steps[stage.id]  # it is decided anew: the result may be here now
        return self._go_on(stage, start=False)

    def _turn(self, step: Step) -> Turn:
        stage = step.stage
        return self._turns.of(step, exclusive=self._is_exclusive(stage), short=self._is_short(stage))

    def _may_ask(self, stage: Stage) -> bool:
        return self._turns.may_ask(exclusive=self._is_exclusive(stage), short=self._is_short(stage))

    def _is_short(self, stage: Stage) -> bool:
        """Whether a stage disturbs a measurement so little that it need not wait for its end."""
        spec, seconds = self.planner.pipeline.kinds[stage.uses].spec, self._schedule.seconds.get(stage.id)
        small = seconds is not None and seconds <= SHORT and stage.cpus == 1 and not stage.gpus
        return small and spec.stage_class == "portable" and not spec.exclusive

    def _start(self, step: Step) -> None:
        name = step.stage.id
        for environment in step.stage.environments:
            from orun.environment import venv_builder

            venv_builder.make(environment, lambda text: self.emit(Notice("info", text)))
        lineage = Lineage.of(self.planner.pipeline, step.stage, self.done)
        with refusals(f"start {name}", self.store.root):
            attempt = Attempt.begin(self.planner.pipeline, self.store, step, self.logs)
            self._attempts[name] = attempt
            job = attempt.job(lineage.text() if lineage else b"")
        self._schedule.start(step.stage)
        self.emit(StageStarted(name, step.reasons, str(attempt.log), step.seconds))
        with refusals(f"start {name}", self.store.root):
            self.executor.start(job)

    def _hear(self, message: Progress | Finished) -> None:
        if isinstance(message, Progress):
            self.emit(StageProgress(message.stage, message.done, message.total, self._mask.text(message.what)))
            return
        attempt = self._attempts[message.stage]
        step = attempt.step
        try:
            self._mask_log(attempt)
            if isinstance(message.result, StageError):
                raise message.result
            self._warn_of_guesses(message.stage, message.result)
            self._say_untraced(message.result.untraced)
            action = attempt.conclude(self._mask.result(message.result), self.done)
        except StageError as error:
            self._fail(step, self._mask.error(error))
        else:
            self._finish(step, action, "built")
        finally:
            self._attempts.pop(message.stage).discard()
            self._turns.end(message.stage)

    def _mask_log(self, attempt: Attempt) -> None:
        with refusals(f"mask secrets in the log of {attempt.step.stage.id}", self.store.root):
            self._mask.file(attempt.log)

    def _warn_of_guesses(self, stage: str, result: JobResult) -> None:
        """Name each variable, once a run, that is taken for a secret because of its name."""
        private = self.planner.pipeline.private
        for name in sorted(filter(private.is_guess, result.environment)):
            if name not in self._warned:
                self._warned.add(name)
                self.emit(Notice("warning", GUESS.format(stage=stage, name=name)))

    def _say_untraced(self, why: str) -> None:
        """Say once in a run that stages are traced in part."""
        if why and not self._untraced:
            self._untraced = why
            self.emit(Notice("info", traced_in_part(why)))

    def _reuse(self, step: Step, action: Action) -> None:
        """Take a stored result, unless it rests on what another stage wrote beside its output in some other run."""
        try:
            Apart(self.planner.pipeline, self.done, self.store).require(step.stage, action.discovered, action.wrote)
        except StageError as error:
            self._fail(step, error)
        else:
            self._finish(step, action, "cached")

    def _finish(self, step: Step, action: Action, outcome: Outcome) -> None:
        """A stage is up to date: put its artifact where people look, judge its gates, and let those after it go on."""
        stage, pipeline = step.stage, self.planner.pipeline
        out, restored = self._outs.put(stage.id, action)
        brought = self.remote is not None and self.remote.is_fetched(step)
        if restored and step.previous and outcome == "cached" and not brought:
            self.emit(Notice("info", f"{stage.id}: restored {out}"))
        self.store.set_latest(pipeline.name, stage.id, action)
        if self.remote:
            self.remote.push(step, action, new=outcome == "built")
        verdicts = self.planner.judge(stage, action)
        self.done[stage.id] = Done(step, action, verdicts)
        if stage.id in self._released:
            verdicts = tuple(replace(one, fails=one.fails or one.blocks) for one in verdicts)
        self.verdicts += verdicts
        self._report(up_to_date(step, action, outcome, str(out), brought=brought))
        for verdict in verdicts:
            self.emit(GateJudged(verdict))

    def _fail(self, step: Step, error: StageError) -> None:
        self._stopped = not self.keep_going
        self._report(failed(step, error))

    def _settle(self, stage: Stage, outcome: Outcome, reasons: tuple[str, ...]) -> None:
        if outcome == "skipped" and self.store.withdraw(self.planner.pipeline.name, stage.id):
            self.emit(
                Notice("info", f"{stage.id}: its output, of another version, was removed: this run leaves it out")
            )
        self._report(left(stage, outcome, reasons, strict=self.planner.pipeline.strict))

    def _report(self, result: StageResult) -> None:
        self.results[result.stage] = result
        self._schedule.settle(result.stage)
        self._pass_on_notices()
        self.emit(StageFinished(result))
