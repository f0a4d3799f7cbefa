"""Common parts of the kinds that launch a model in new processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric, Unit
from orun.core.serialization import encode
from orun.stages.common_parameters import ModelTarget
from orun.stages.contract import Context, Port
from orun.stages.params import Doc, Range
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from orun.measure.dataset import Array
    from orun.measure.latency.cold_start import Reading, Request

INPUTS = {
    "model": Port(("onnx", "engine"), "The model to launch."),
    "reference": Port(("onnx", "engine"), "The model to compare with.", optional=True, many=True),
}
LEAST = 6  # launches; fewer do not bound a median with 95 % confidence


@dataclass(frozen=True)
class Launches:
    """Parameters of the launches."""

    target: ModelTarget = None
    inputs: TimedInputs = None
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    io_binding: IoBinding = False
    launches: Annotated[int, Doc("Number of launches of each model."), Range(low=LEAST)] = LEAST


def prepare(
    context: Context, params: Launches, runs: int
) -> tuple[Mapping[str, Request], Mapping[str, Mapping[str, Array]]]:
    """Return the request of a launch and the inputs of each connected model, by role."""
    from orun.measure.latency.cold_start import Request
    from orun.stages.timing import Sizes, make_timed_feeds

    target = context.model_target
    models = {role: context.model(role) for role in context.inputs}
    fed = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    return {role: Request(path, target, runs, params.io_binding) for role, path in models.items()}, fed


def compare_launches(
    launches: Mapping[str, Sequence[Reading]], figure: Callable[[Reading], float], unit: Unit
) -> Metric:
    """Return the median of a figure over the launches, compared with the other models' launch by launch."""
    from orun.measure.latency.rounds import compare_rounds

    figures = {role: [figure(reading) for reading in readings] for role, readings in launches.items()}
    return compare_rounds(figures, unit, noun="launches")


def write(context: Context, launches: Mapping[str, Sequence[Reading]]) -> None:
    """Write the readings of every launch to the artifact."""
    text = json.dumps(encode(launches), indent=2)
    (context.output / "launches.json").write_text(text + "\n", "utf-8")
