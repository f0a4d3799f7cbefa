"""Setbacks of a run on several machines, and whether a stage starts again after one.

A stage starts again after a loss of its machine, a refusal, or a transfer that failed, each a few times at most. If no
machine can run it, it waits for one as long as the run may wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from orun.core.events import Event, Notice
from orun.core.machines import Lost, Refused
from orun.errors import MachineLost, StageFailed
from orun.text.units import show
from orun.text.wording.reasons import describe_reasons

MOST_LOSSES = 2  # of machines that ran a stage, after which it starts again
MOST_REFUSALS = 3  # of a stage, after which it starts again
MOST_REPAIRS = 2  # of what did not arrive from the remote, for each stage
START_ONE = "start a machine: orun agent --help"


@dataclass
class Setbacks:
    """Setbacks of the stages of a run so far."""

    wait: float  # seconds that a stage waits for a machine that can run it
    emit: Callable[[Event], None]
    _losses: dict[str, list[str]] = field(default_factory=dict)  # lost machines by stage
    _refusals: Counter[str] = field(default_factory=Counter)
    _repairs: Counter[str] = field(default_factory=Counter)
    _again: dict[str, str] = field(default_factory=dict)  # why a stage starts again
    _lacking: dict[str, float] = field(default_factory=dict)  # since when no machine can run a stage

    @property
    def waiting(self) -> bool:
        """Whether a stage waits for a machine that can run it."""
        return bool(self._lacking)

    def stop_lacking(self, stage: str) -> None:
        """Take note that a machine can run a stage, or that it will not run."""
        self._lacking.pop(stage, None)

    def start(self, stage: str, machine: str) -> None:
        """Take note that a stage starts; say so if it starts again."""
        if why := self._again.pop(stage, ""):
            losses = f" ({len(self._losses[stage])} of {MOST_LOSSES})" if stage in self._losses else ""
            self.emit(Notice("warning", f"{why}; {stage} starts again on {machine}{losses}"))

    def lose(self, message: Lost, seconds: float) -> MachineLost | None:
        """Return the error of a stage lost too often, so many seconds after it was sent; None if it starts again."""
        stage, machine = message.stage, message.machine
        if not message.started:
            self._again[stage] = f"machine {machine} did not start {stage} ({message.why})"
            return None
        losses = self._losses.setdefault(stage, [])
        losses.append(machine)
        if len(losses) > MOST_LOSSES:
            problem = f"{stage} was lost with {len(losses)} machines: {', '.join(losses)}"
            return MachineLost(stage, problem, why=message.why, hint="see the agents' logs there, and run again")
        why = f" ({message.why})" if message.why else ""
        self._again[stage] = f"machine {machine} was lost after {show(seconds, 's')}{why}"
        return None

    def refuse(self, message: Refused, explain: str) -> StageFailed | None:
        """Return the error of a stage refused too often, with a command to explain why; None if it starts again."""
        stage, machine = message.stage, message.machine
        self._refusals[stage] += 1
        differing = "; ".join(describe_reasons(message.reasons)) or "its key differs"
        if self._refusals[stage] > MOST_REFUSALS:
            problem = f"{machine} refuses {stage}: what it depends on changes there all the time"
            return StageFailed(stage, problem, why=differing, hint=explain)
        self.emit(Notice("info", f"{stage} on {machine}: {differing}; planning again"))
        return None

    def may_repair(self, stage: str) -> bool:
        """Return whether what did not arrive from the remote for a stage may be pushed again, once more."""
        self._repairs[stage] += 1
        return self._repairs[stage] <= MOST_REPAIRS

    def begin_again(self, stage: str, why: str) -> None:
        """Take note that a stage starts again, to be said when it does."""
        self._again[stage] = why

    def find_lack(self, stage: str, problem: str) -> MachineLost | None:
        """Return the error of a stage that no machine can run; None while it may wait for one."""
        if self.wait and stage not in self._lacking:
            self.emit(Notice("info", f"waiting for a machine: {stage}: {problem}"))
        since = self._lacking.setdefault(stage, monotonic())
        if monotonic() - since < self.wait:
            return None
        del self._lacking[stage]
        hint = f"run again when one is there: --wait 30m; {START_ONE}"
        if why := self._again.pop(stage, ""):
            return MachineLost(stage, why, why=problem, hint=hint)
        return MachineLost(stage, f"{stage} cannot run: {problem}", hint=hint)
