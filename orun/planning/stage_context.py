"""Stage context: kind, ports and baseline of a stage, resolved once for the planner."""

from __future__ import annotations

from orun.core.serialization import Record
from orun.gates.baseline_file import Accepted, Baseline
from orun.gates.measured import Ports
from orun.pipeline.model import Pipeline, Stage, iter_gates
from orun.stages.contract import Spec


class StageContext(Record, frozen=True):
    """Kind, ports and baseline of a stage.

    Attributes:
        spec: of its kind.
        ports: its inputs by what they are for.
        accepted: what the baseline has for it.
        compared: digest of the accepted model that it measures too; empty when there is none.
    """

    spec: Spec
    ports: Ports
    accepted: Accepted | None
    compared: str

    @property
    def only_measures(self) -> bool:
        """Whether nothing is built or released from its result."""
        return self.spec.output == "metrics" and not self.spec.releases

    @classmethod
    def of(cls, pipeline: Pipeline, stage: Stage, baseline: Baseline | None) -> StageContext:
        """Resolve a stage of a pipeline."""
        spec = pipeline.kinds[stage.uses].spec
        accepted = baseline.stages.get(stage.id) if baseline else None
        compares = spec.baseline and any(gate.rule == "max_regression" for gate in iter_gates(stage.gates))
        return cls(spec, Ports.of(spec, stage), accepted, accepted.model if accepted and compares else "")
