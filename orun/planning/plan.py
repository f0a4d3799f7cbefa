"""Plan of a run and its up-to-date stages: plain data between planner and runner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orun.core.run_record import GateOutcome, UnknownStage, Verdict
from orun.core.serialization import Record, field
from orun.pipeline.model import Pipeline, Stage
from orun.store import Action

# What a gate did that keeps stages after it from running; the gravest first.
BLOCKING: Mapping[GateOutcome, str] = {
    "failed": "failed",
    "undecided": "is undecided",
    "no baseline": "has no baseline",
}
Decision = Literal["run", "cached", "maybe", "skipped", "blocked"]


class Step(Record, frozen=True):
    """What a plan says of one stage.

    Attributes:
        stage: the stage.
        action: `run`, `cached`, `maybe` (a stage before it runs, and may yield the same bytes as before), `skipped` or
            `blocked` (by a gate that is judged already).
        reasons: one sentence each, the most telling first.
        seconds: how long it took last time, or None.
        key: its key; empty while an input is unknown.
        parts: the parts of the key, by name; without the inputs that are unknown.
        previous: the parts of the key that it had when it ran last; empty when it never did.
        inputs: digest of what is at each input port.
        hit: the stored result of a stage that is `cached`, or would be if it were not `blocked`.
        read: what it was seen to read besides when it ran last, by name: then and now. Looked up for `explain` alone.
    """

    stage: Stage
    action: Decision
    reasons: tuple[str, ...]
    seconds: float | None = None
    key: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    hit: Action | None = None
    read: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class Plan(Record, frozen=True):
    """The steps of a pipeline in the order in which they may run."""

    pipeline: Pipeline
    steps: tuple[Step, ...]

    def __getitem__(self, stage: str) -> Step:
        """Return the step of a stage by its id; UnknownStage, a KeyError, if the plan has none of that name."""
        for step in self.steps:
            if step.stage.id == stage:
                return step
        raise UnknownStage(f"the plan of {self.pipeline.name}", stage, [step.stage.id for step in self.steps])


class Done(Record, frozen=True):
    """A stage that is up to date: its stored result and the verdicts of its gates."""

    step: Step
    action: Action
    verdicts: tuple[Verdict, ...]

    @property
    def good(self) -> bool:
        """Whether stages after it may use it: no gate of it fails."""
        return not any(verdict.fails for verdict in self.verdicts)

    @property
    def blocking(self) -> str:
        """What its gravest gate that blocks releases did, as the end of a sentence; empty if none blocks them."""
        outcomes = {verdict.outcome for verdict in self.verdicts if verdict.blocks}
        return next((verb for outcome, verb in BLOCKING.items() if outcome in outcomes), "")
