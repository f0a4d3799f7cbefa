"""Measure the time until a model is ready in a new process, alone and against a reference and the baseline.

`load` is the time to make the session, `first` the time of the first inference, `ready` their sum. They are wall times,
medians over launches of new processes, with the model's files in memory. Importing the runtime is not included.

The stage has the machine to itself. The result is bound to the host. The artifact holds `launches.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orun.core.metrics import TIME, Metric
from orun.stages.cold_start import INPUTS, Launches, compare_launches, prepare, write
from orun.stages.contract import Context, Spec

SPEC = Spec(
    inputs=INPUTS,
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    preload=("numpy", "onnx"),
    baseline=True,
    metrics={"load": TIME, "first": TIME, "ready": TIME},
)


@dataclass(frozen=True)
class Params(Launches):
    """Parameters of `measure/startup`."""


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Launch the models; write the times of each launch."""
    from orun.measure.latency.cold_start import launch_in_turn

    launches = launch_in_turn(*prepare(context, params, runs=1), params.launches, context.progress)
    write(context, launches)
    return {
        "load": compare_launches(launches, lambda reading: reading.load, "s"),
        "first": compare_launches(launches, lambda reading: reading.first, "s"),
        "ready": compare_launches(launches, lambda reading: reading.load + reading.first, "s"),
    }
