"""Stages of a run whose processes run on this machine: from their session directory to the stored result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orun.core.events import Event, Notice, StageStarted
from orun.errors import StageError
from orun.executors import Executor, Finished, Progress
from orun.fs.os_errors import convert_os_errors
from orun.planning.assignment import format_missing_labels
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.runner.stage_execution import StageEnd, StageExecution
from orun.runner.stage_reports import StageReports

IDLE_SECONDS = 0.25  # without a message from a stage, after which postponed writes are done


@dataclass
class LocalStages:
    """Stages that run here."""

    planner: Planner
    executor: Executor
    emit: Callable[[Event], None]
    logs: Path
    reports: StageReports
    _executions: dict[str, StageExecution] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether a process runs."""
        return bool(self._executions)

    def start(self, step: Step, done: Mapping[str, Done]) -> None:
        """Start the process of a stage."""
        name = step.stage.id
        if why := self.planner.explain_here(step.stage):
            self.emit(Notice("info", f"{name} runs on this machine: {why}"))
        if self.planner.assignment is None and (labels := format_missing_labels(step.stage)):
            machine = f"this machine, which is not known to have {labels}"
            self.emit(Notice("warning", f"{name} runs on {machine}: `runs_on` counts in runs with --on"))
        for environment in step.stage.environments:
            from orun.environment import venv_builder

            venv_builder.make(environment, lambda text: self.emit(Notice("info", text)))
        with convert_os_errors(f"start {name}", self.planner.store.root):
            execution = StageExecution.prepare(self.planner.pipeline, self.planner.store, step, self.logs)
            self._executions[name] = execution
            job = execution.build_job(done)
        self.emit(StageStarted(name, step.reasons, str(execution.log), step.seconds))
        with convert_os_errors(f"start {name}", self.planner.store.root):
            self.executor.start(job)

    def receive(self, timeout: float | None, done: Mapping[str, Done]) -> Iterator[StageEnd]:
        """Take the messages of the processes, and wait for the first; yield the stages that have ended.

        Args:
            timeout: seconds to wait at most; when None, the store does postponed writes while they are silent.
            done: the stages that are up to date, those that were yielded included.
        """
        messages = self.executor.wait(IDLE_SECONDS if timeout is None else timeout) if self.active else []
        if not messages and timeout is None:
            self.planner.store.flush()
            messages = self.executor.wait()
        for message in messages:
            if isinstance(message, Progress):
                self.reports.pass_progress(message)
            else:
                yield self._conclude(message, done)

    def _conclude(self, message: Finished, done: Mapping[str, Done]) -> StageEnd:
        """Store the result of a stage whose process has ended."""
        execution = self._executions[message.stage]
        try:
            self.reports.filter_log(message.stage, execution.log, self.planner.store.root)
            if isinstance(message.result, StageError):
                raise message.result
            result = self.reports.filter_result(message.stage, message.result)
            return StageEnd(execution.step, execution.store_result(result, done))
        except StageError as error:
            return StageEnd(execution.step, error)
        finally:
            self._executions.pop(message.stage).discard()

    def close(self) -> None:
        """Stop all processes and remove what is left of them."""
        if self._executions:
            self.executor.close()  # nothing may write into a session directory any more
        for name, execution in self._executions.items():
            self.reports.filter_log(name, execution.log, self.planner.store.root)
            execution.discard()
