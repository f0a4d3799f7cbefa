"""Measure how much memory a process with a model takes, alone and against a reference and the baseline.

`peak` is the most that was resident from the start of a new process that imports the runtime, makes a session and
runs it; `added` is how much of it the model brought, beyond the imported runtime; `held` is what is resident after the
last inference. Medians over launches of new processes. Linux alone tells these figures.

They depend on the kernels and threads that the processor calls for: the result is bound to the device. The artifact
holds `launches.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from orun.errors import StageFailed
from orun.metrics import Metric
from orun.stages.contract import Context, Spec
from orun.stages.fresh import INPUTS, Launches, readings, write
from orun.stages.params import Doc, Range

SPEC = Spec(
    inputs=INPUTS,
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    deterministic=False,
    preload=("numpy", "onnx"),
    baseline=True,
    metrics=("peak", "added", "held"),
    units=dict.fromkeys(("peak", "added", "held"), "B"),
)


@dataclass(frozen=True)
class Params(Launches):
    """Parameters of `measure/memory`."""

    runs: Annotated[int, Doc("Inferences in a launch."), Range(low=1)] = 5


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Launch the models, and leave what each launch took."""
    from orun.measure.fresh import STATUS, metric

    if not STATUS.exists():
        raise StageFailed(context.stage, f"memory is read from {STATUS}, which this system does not have")
    found = readings(context, params, params.runs)
    write(context, found)
    return {
        "peak": metric(found, lambda reading: reading.peak, "B"),
        "added": metric(found, lambda reading: reading.peak - reading.before, "B"),
        "held": metric(found, lambda reading: reading.held, "B"),
    }
