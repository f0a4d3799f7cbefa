"""Measure how much memory a process with a model takes, alone and against a reference and the baseline.

`peak` is the most that was resident from the start of a new process that imports the runtime, makes a session and
runs it; `added` is how much of it the model brought, beyond the imported runtime; `held` is what is resident after the
last inference. Medians over launches of new processes. Linux alone tells these figures.

Of one launch more, in which ONNX Runtime logs what it takes: `arena` is what its arena on the CPU took from the system
in all, most of which it keeps; and, where the target names CUDA or TensorRT, `gpu` is by how much the memory in use on
that GPU grew until the last inference, by `nvidia-smi`, which counts whatever else runs there meanwhile.

They depend on the kernels and threads that the processor calls for: the result is bound to the device. The artifact
holds `launches.json`, and `watched.json` of the last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.cold_start import INPUTS, Launches, launch_models, prepare, write
from orun.stages.contract import Context, Spec
from orun.stages.params import Doc, Range

FIGURES = ("peak", "added", "held", "arena", "gpu")

SPEC = Spec(
    inputs=INPUTS,
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    deterministic=False,
    preload=("numpy", "onnx"),
    baseline=True,
    metrics=FIGURES,
    units=dict.fromkeys(FIGURES, "B"),
)


@dataclass(frozen=True)
class Params(Launches):
    """Parameters of `measure/memory`."""

    runs: Annotated[int, Doc("Inferences in a launch."), Range(low=1)] = 5


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Launch the models, and leave what each launch took."""
    from orun.measure.latency.cold_start import STATUS, compare_rounds
    from orun.measure.metrics.paired import exact_metric

    if not STATUS.exists():
        raise StageFailed(context.stage, f"memory is read from {STATUS}, which this system does not have")
    found = launch_models(context, params, params.runs)
    write(context, found)
    watched = _watched(context, params)
    return {
        "peak": compare_rounds(found, lambda reading: reading.peak, "B"),
        "added": compare_rounds(found, lambda reading: reading.peak - reading.before, "B"),
        "held": compare_rounds(found, lambda reading: reading.held, "B"),
        **{name: exact_metric(taken, "B") for name, taken in watched.items() if taken},
    }


def _watched(context: Context, params: Params) -> Mapping[str, Mapping[str, int]]:
    """What the arena and the GPU give in a launch of each model, by the model's role; nothing without a GPU."""
    from orun.core.serialization import replace
    from orun.measure.latency.cold_start import launch_cold

    found: dict[str, dict[str, int]] = {"arena": {}, "gpu": {}}
    requests, fed = prepare(context, params, params.runs)
    for role, request in requests.items():
        reading = launch_cold(replace(request, watched=True), fed[role])
        for name, taken in (("arena", reading.arena), ("gpu", reading.gpu)):
            if taken is not None:
                found[name][role] = taken
    (context.output / "watched.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return found
