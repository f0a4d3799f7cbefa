"""Context in which the gates of a stage are checked: its metrics, their units and directions, and its references."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orun.core.metrics import Better, Unit, parse_extra_reference
from orun.core.serialization import Record
from orun.measure.accuracy.names import ERRORS
from orun.measure.accuracy.names import UNITS as ACCURACY
from orun.pipeline.instances import Instance
from orun.pipeline.nodes import Path
from orun.pipeline.problems import Problems
from orun.stages.kind import Kind

REFERENCE = "reference"
LABEL = "label"  # field of a dataset for its labels
EVERYWHERE: Mapping[str, Unit] = {"size": "B"}  # metrics of every built-in kind with an artifact
BY_UNIT: Mapping[Unit, Better] = {"s": "lower", "B": "lower", "J": "lower", "1/s": "higher"}
DIRECTIONS: Mapping[str, Better] = {  # metrics of built-in kinds whose unit does not decide
    **{name: "lower" if name.partition(".")[0] in ERRORS else "higher" for name in ACCURACY},
    **dict.fromkeys(("coverage", "served", "speedup"), "higher"),
}


class GateContext(Record, frozen=True):
    """Context in which the gates of a stage are checked."""

    instance: Instance
    kind: Kind
    metrics: Collection[str] | None  # names of the stage's metrics; None when unknown
    slices: Collection[str]  # fields of its dataset for slices
    classes: Sequence[str]  # names of the numbers in the slices by label; empty when unknown
    better: Mapping[str, Better]  # direction of the user's own metrics, from its parameters
    target: str  # name of the stage's target; `cpu` by default
    targets: Collection[str]  # names of all targets
    unsound: Collection[Path]  # paths of nodes whose mistakes are already reported
    problems: Problems

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the connected references; empty for `reference` itself."""
        ports = [link.port or "" for link in self.instance.links]
        return tuple(
            name for port in ports if (name := REFERENCE if port == REFERENCE else parse_extra_reference(port))
        )

    def knows(self, metric: str) -> bool:
        """Return whether the stage may have a metric: of its kind, or of a slice such as `accuracy[label=3]`."""
        name, opened, rest = metric.partition("[")
        sliced = bool(opened) and rest.partition("=")[0] in self.slices and rest.endswith("]")
        return self.metrics is None or metric in self.metrics or (sliced and name in self.metrics)

    def is_built_in(self, metric: str) -> bool:
        """Return whether a built-in kind defines a metric; a function of the user's own may define others."""
        spec = self.kind.spec
        return self.kind.origin == "built-in" and metric.partition("[")[0] in (*(spec.metrics or ()), *spec.units)

    def find_unit(self, metric: str) -> Unit | None:
        """Return the unit of a metric; None when only a measurement shows it."""
        name = metric.partition("[")[0]
        known = EVERYWHERE.get(name) if self.kind.origin == "built-in" else None
        return self.kind.spec.units.get(name, known)

    def find_direction(self, metric: str) -> Better:
        """Return the direction in which a metric improves; `neither` when only a measurement shows it."""
        name, unit = metric.partition("[")[0], self.find_unit(metric)
        if self.kind.origin == "built-in" and name in DIRECTIONS:
            return DIRECTIONS[name]
        return self.better.get(name) or BY_UNIT.get(unit or "", "neither")
