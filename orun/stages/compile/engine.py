"""Let the provider of a target compile the model ahead of time, so that sessions start faster.

The result is an `engine`. `measure/latency`, `measure/startup` and others take it in place of a model, on the target
that it was compiled for.

- `form: context` yields an ONNX model in which EPContext nodes hold the compiled parts.
- `form: cache` yields the unchanged model beside the provider's cache (OpenVINO's blobs, TensorRT's engines).

The stage loads the result in new processes, where nothing may be compiled again. It compares the outputs with those of
the uncompiled model on the same target. Values that depend on attention rows that see nothing are not compared, and a
note says how many they were. `load` and `load_uncompiled` are the median times to make a session.

Tested from end to end: OpenVINO on Intel CPUs (its plug-in, with `context`) and QNN with the simulator of its package.
onnxruntime-openvino, up to 1.24.1, can open neither its own EPContext models of the CPU nor the blobs of its cache. It
compiles the model again in every process, which fails the stage. TensorRT, TensorRT RTX, CoreML, MIGraphX and VitisAI
use the same code and were not run on their hardware.

The result is bound to the device: processor or GPU, driver, and the versions of the provider's libraries are in the
key. If one of them cannot be read, the stage fails, since a guess could pass an engine on to another device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import LOWER, SIZE, TIME, Metric
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range, TargetName


@dataclass(frozen=True)
class Params:
    """Parameters of `compile/engine`."""

    target: Annotated[TargetName, Doc("Target whose first provider compiles the model.")]
    form: Annotated[
        Literal["auto", "context", "cache"],
        Doc("EPContext nodes in the model, or the provider's cache beside it; by default the form that works."),
    ] = "auto"
    embed: Annotated[bool, Doc("With `context`: keep compiled code inside the model, not in files.")] = False
    launches: Annotated[
        int,
        Doc("Processes in which each model is loaded; the median has an interval from 6 on."),
        Range(low=1),
    ] = 6
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to compile.")},
    output="engine",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    deterministic=False,
    preload=("numpy", "onnx"),
    metrics={
        "size": SIZE,
        "load": TIME,
        "load_uncompiled": TIME,
        "max_abs_error": LOWER,
        "compiled": LOWER,
        "left": LOWER,
    },
)


def run(context: Context, params: Params) -> Mapping[str, Metric | float]:
    """Write the compiled model and `engine.json`."""
    from orun.stages._graph.agreement import Trial, load_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph
    from orun.stages.compile._check import load_back
    from orun.stages.compile._compiling import choose_form, compile_model

    form = choose_form(context, params.form)
    if params.embed and form != "context":
        raise context.failed(
            f"`embed` needs `form: context`, and the form is {form!r}",
            hint="leave `embed` out: a cache lies beside the model",
        )
    cases = load_cases(context, load_graph(context.model()), Trial(params.dims, params.inputs))
    engine = compile_model(context, form, embed=params.embed)
    return load_back(context, engine, cases, params.launches, Tolerance(params.atol, params.rtol))
