"""Stage context: kind, ports and baseline of a stage, resolved once for the planner."""

from __future__ import annotations

from orun.core.serialization import Record
from orun.gates.baselines import Accepted, Baseline
from orun.gates.measured import Ports
from orun.pipeline.model import Pipeline, Stage, conditions
from orun.stages.contract import Spec


class StageContext(Record, frozen=True):
    """A stage with its kind and its baseline.

    Attributes:
        stage: the stage.
        spec: of its kind.
        ports: its inputs by what they are for.
        accepted: what the baseline has for it.
        compares: whether it measures the accepted model too.
    """

    stage: Stage
    spec: Spec
    ports: Ports
    accepted: Accepted | None
    compares: bool

    @classmethod
    def of(cls, pipeline: Pipeline, stage: Stage, baseline: Baseline | None) -> StageContext:
        """Resolve a stage of a pipeline."""
        spec = pipeline.kinds[stage.uses].spec
        accepted = baseline.stages.get(stage.id) if baseline else None
        compares = spec.baseline and any(gate.rule == "max_regression" for gate in conditions(stage.gates))
        return cls(stage, spec, Ports.of(spec, stage), accepted, compares)

    @property
    def compared(self) -> str:
        """Digest of the accepted model that the stage is to be compared with; empty when there is none."""
        return self.accepted.model if self.accepted and self.compares else ""
