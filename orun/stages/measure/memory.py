"""Measure the memory of a process with a model, alone and against a reference and the baseline. Linux only.

Each launch is a new process that imports the runtime, makes a session and runs it. Figures are medians over launches:

- `peak`: most resident memory.
- `added`: the part of it beyond the imported runtime.
- `held`: resident memory after the last inference.

In one further launch ONNX Runtime logs its allocations. `arena` is what its CPU arena took from the system, most of
which it keeps. `gpu`, if the target names CUDA or TensorRT, is the growth of the GPU's memory in use until the last
inference, by `nvidia-smi`, which includes other processes.

The figures depend on the kernels and threads of the processor, so the result is bound to the device. The artifact holds
`launches.json`, and `watched.json` of the further launch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import SIZE, Metric, Quantity
from orun.stages.cold_start import INPUTS, Launches, compare_launches, prepare, write
from orun.stages.contract import Context, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.measure.latency.cold_start import Request

    Array = NDArray[Any]

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
    metrics={"peak": SIZE, "added": Quantity("B", "lower"), "held": SIZE, "arena": SIZE, "gpu": SIZE},
)


@dataclass(frozen=True)
class Params(Launches):
    """Parameters of `measure/memory`."""

    runs: Annotated[int, Doc("Inferences in a launch."), Range(low=1)] = 5


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Launch the models; write the memory of each launch."""
    from orun.measure.latency.cold_start import STATUS, launch_in_turn
    from orun.measure.metrics.paired import build_exact_metric

    if not STATUS.exists():
        raise context.failed(f"memory is read from {STATUS}, which this system does not have")
    requests, fed = prepare(context, params, params.runs)
    launches = launch_in_turn(requests, fed, params.launches, context.progress)
    write(context, launches)
    watched = _watch(context, requests, fed)
    return {
        "peak": compare_launches(launches, lambda reading: reading.peak, "B"),
        "added": compare_launches(launches, lambda reading: reading.peak - reading.before, "B"),
        "held": compare_launches(launches, lambda reading: reading.held, "B"),
        **{name: build_exact_metric(sizes, "B") for name, sizes in watched.items() if sizes},
    }


def _watch(
    context: Context, requests: Mapping[str, Request], fed: Mapping[str, Mapping[str, Array]]
) -> Mapping[str, Mapping[str, int]]:
    """Launch each model once more; return the sizes of `arena` and `gpu` by role, those of a GPU only if there is one.

    The artifact holds them as `watched.json`.
    """
    from orun.core.serialization import replace
    from orun.measure.latency.cold_start import launch_cold

    sizes: dict[str, dict[str, int]] = {"arena": {}, "gpu": {}}
    for role, request in requests.items():
        reading = launch_cold(replace(request, watched=True), fed[role])
        for name, size in (("arena", reading.arena), ("gpu", reading.gpu)):
            if size is not None:
                sizes[name][role] = size
    (context.output / "watched.json").write_text(json.dumps(sizes, indent=2) + "\n", "utf-8")
    return sizes
