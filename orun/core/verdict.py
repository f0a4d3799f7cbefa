"""Verdicts of gates, as plain data."""

from __future__ import annotations

from typing import Literal

from orun.core.metrics import Estimate, Unit
from orun.core.reason import Reason
from orun.core.serialization import Record
from orun.core.source_location import Position

GateOutcome = Literal["passed", "failed", "undecided", "no baseline"]


class Named:
    """Name of a gate, judged or not."""

    __slots__ = ()

    stage: str
    metric: str
    rule: str
    threshold: str
    scope: str

    @property
    def title(self) -> str:
        """Gate for people: `latency p50 max 12ms`, `latency any of 2`."""
        return " ".join(part for part in (self.stage, self.metric, self.condition) if part)

    @property
    def condition(self) -> str:
        """Condition: `max 12ms`; empty for a group."""
        return f"{self.rule} {self.threshold}{self.scope}" if self.threshold else ""


class Verdict(Named, Record, frozen=True):
    """Verdict of a gate.

    Attributes:
        stage, metric, rule, threshold: the gate in the file; `threshold` is its text.
        outcome: `passed`, `failed`, `undecided` (the interval includes the threshold) or `no baseline`.
        fails: whether the run ends with exit code 1 (the gate failed) or 4.
        measured: the judged value: the metric for absolute rules; the drop, increase or slow-down (a proportion for a
            relative threshold) or the speed-up for others; None when there is nothing to judge.
        unit: unit of `measured`.
        interval: interval of `measured`, unless that is exact.
        finding: the finding with its figures.
        position: the gate's place in the file.
        scope: restriction of the gate: ` against fused`, ` by label`; else empty.
        depth: number of groups around it. A group (`all of 2`) is a verdict before its members; the outermost one fails
            the run.
        caveats: limits of the verdict.
        blocks: whether releases after it are not built: it failed, or is undecided without `undecided: allow`.
    """

    stage: str
    metric: str
    rule: str
    threshold: str
    outcome: GateOutcome
    fails: bool
    measured: float | None
    unit: Unit
    interval: Estimate | None
    finding: Reason
    position: Position
    scope: str = ""
    depth: int = 0
    caveats: tuple[Reason, ...] = ()
    blocks: bool = False

    def __repr__(self) -> str:
        return f"Verdict({self.title!r}, {self.outcome!r}, measured={self.measured})"


class Unjudged(Named, Record, frozen=True):
    """Gate of a stage that measured nothing in this run.

    Attributes:
        stage, metric, rule, threshold, position, scope: as in `Verdict`.
        fails: whether the run fails: it is strict, and the stage was skipped.
    """

    stage: str
    metric: str
    rule: str
    threshold: str
    position: Position
    scope: str = ""
    fails: bool = False

    def __repr__(self) -> str:
        return f"Unjudged({self.title!r})"
