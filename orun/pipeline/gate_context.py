"""Context in which the gates of a stage are checked: its metrics, their units and directions, and its references."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orun.core.metrics import Better, Quantity, find_quantity, parse_extra_reference
from orun.core.serialization import Record
from orun.pipeline.instances import Instance
from orun.pipeline.nodes import Path
from orun.pipeline.problems import Problems
from orun.stages.kind import Kind

REFERENCE = "reference"
LABEL = "label"  # field of a dataset for its labels


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

    def find_quantity(self, metric: str) -> Quantity:
        """Return what is known of a metric, or of the metric of a slice, before it is measured."""
        own = Quantity(better=self.better.get(metric.partition("[")[0], "neither"))
        return find_quantity(self.kind.spec.metrics, metric, own)

    def lacks_direction(self, metric: str) -> bool:
        """Return whether a parameter of the stage should say which way a metric improves, and does not."""
        takes_directions = self.kind.origin == "built-in" and any(param.name == "better" for param in self.kind.params)
        return takes_directions and self.find_quantity(metric).better == "neither" and self.knows(metric)
