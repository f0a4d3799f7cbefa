"""Plan of a run and its up-to-date stages: plain data between planner and runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from orun.core.key_component import Components
from orun.core.machines import Machine
from orun.core.named_items import NamedItems
from orun.core.reason import Reason
from orun.core.renderers import load_renderer
from orun.core.serialization import Record, field
from orun.core.verdict import GateOutcome, Verdict
from orun.pipeline.model import Pipeline, Stage
from orun.store import Action

BLOCKING: tuple[GateOutcome, ...] = ("failed", "undecided", "no baseline")  # outcomes that block, the gravest first
Decision = Literal["run", "cached", "maybe", "skipped", "blocked"]
DUE: tuple[Decision, ...] = ("run", "maybe")


class Step(Record, frozen=True):
    """Decision on one stage.

    Attributes:
        stage: the stage.
        action: `run`, `cached`, `maybe` (a stage before it runs, and may yield the same bytes as before), `skipped` or
            `blocked` (by a gate that is judged already).
        reasons: why, the most telling first.
        seconds: how long it took last time, or None.
        key: its key; empty while an input is unknown.
        components: those of the key; without the inputs that are unknown.
        previous: the components of the key of its last run; empty when it never ran.
        inputs: digest of what is at each input port.
        cached_action: the stored result of a stage that is `cached`, or would be if it were not `blocked`.
        used: implicit dependencies of its last run, then and now. Only `explain` looks them up.
        machine: id of the machine whose facts are in the key; empty for this one.
        holder: id of the machine that has a result whose files are neither here nor in the remote; empty if none has.
        facts: the components that the machine decides. Only `explain` looks them up.
        left_out: why machines that were found take no part. Only `explain` has it.
    """

    stage: Stage
    action: Decision
    reasons: tuple[Reason, ...]
    seconds: float | None = None
    key: str = ""
    components: Components = ()
    previous: Components = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    cached_action: Action | None = None
    used: tuple[Components, Components] = ((), ())
    machine: str = ""
    holder: str = ""
    facts: Components = ()
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Step({self.stage.id!r}, {self.action!r})"


class Plan(NamedItems[Step], Record, frozen=True):
    """Steps of a pipeline.

    Attributes:
        pipeline: the pipeline.
        steps: in the order in which they may run.
        machines: the machines of the fleet that they were planned for.
        here: why a stage of a run on a fleet runs on the machine that plans, by its id.
        left_out: why machines that were found in the fleet take no part, a sentence each.
    """

    pipeline: Pipeline
    steps: tuple[Step, ...]
    machines: tuple[Machine, ...] = ()
    here: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        actions = Counter(step.action for step in self.steps)
        counts = "".join(f", {action}={number}" for action, number in actions.items())
        return f"Plan({self.pipeline.name!r}{counts})"

    def _repr_html_(self) -> str:
        html: str = load_renderer("plan_html")(self)
        return html

    def list_items(self) -> Mapping[str, Step]:
        """Return the steps by the ids of their stages."""
        return {step.stage.id: step for step in self.steps}

    def describe(self) -> tuple[str, str]:
        """Return what messages call it and its items."""
        return f"the plan of {self.pipeline.name}", "stage"


class Done(Record, frozen=True):
    """Up-to-date stage.

    Attributes:
        step: the decision on it.
        action: its stored result.
        verdicts: of its gates.
        behind: the failed gate in spite of which it ran, as it only measures; None if there is none.
    """

    step: Step
    action: Action
    verdicts: tuple[Verdict, ...]
    behind: Reason | None = None

    @property
    def good(self) -> bool:
        """Whether stages after it may use it: none of its gates fails."""
        return not any(verdict.fails for verdict in self.verdicts)

    @property
    def blocking(self) -> GateOutcome | None:
        """The outcome of its gravest gate that blocks releases; None if none does."""
        outcomes = {verdict.outcome for verdict in self.verdicts if verdict.blocks}
        return next((outcome for outcome in BLOCKING if outcome in outcomes), None)
