"""Let the provider of a target compile the model beforehand, so that a session need not.

The result is an `engine`: `measure/latency`, `measure/startup` and the like take it in place of a model, on the target
that it was compiled for. With `form: context` it is an ONNX model in which EPContext nodes stand for what was compiled;
with `form: cache` it is the model as it was, beside what the provider keeps of it (OpenVINO's blobs, engines of
TensorRT).

It is loaded back in a new process, where nothing may be compiled again, and its outputs are compared with those of
the uncompiled model on the same target. `load` and `load_uncompiled` are the medians of how long the session takes in
new processes in turn.

Shown from end to end are OpenVINO on CPUs of Intel (its plug-in by `context`) and QNN by the simulator in its package.
onnxruntime-openvino, up to 1.24.1, opens neither the EPContext models of the CPU that it writes nor the blobs of its
cache: it compiles the model again in every process, which fails the stage. TensorRT, TensorRT RTX, CoreML, MIGraphX and
VitisAI go the same ways and were not run on their hardware.

The result is bound to the device: processor or GPU, driver, and the versions of the provider's libraries are in the
key. What cannot be read there fails; a guess would let one device's engine pass for another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.agreement import Atol, Dims, Inputs, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range, TargetName


@dataclass(frozen=True)
class Params:
    """What to compile for, in which form, and how to check it."""

    target: Annotated[TargetName, Doc("Whose first provider compiles the model.")]
    form: Annotated[
        Literal["auto", "context", "cache"],
        Doc("EPContext nodes in the model, or the provider's own cache beside it; what works when left out."),
    ] = "auto"
    embed: Annotated[bool, Doc("Keep compiled code within the model, not in files beside it; for `context`.")] = False
    launches: Annotated[
        int, Doc("New processes in which each of the two models is loaded; 6 bound the median."), Range(low=1)
    ] = 6
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None
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
    metrics=("size", "load", "load_uncompiled", "max_abs_error", "compiled", "left"),
    units={"size": "B", "load": "s", "load_uncompiled": "s"},
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Leave the compiled model and `engine.json`."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages.compile._check import loaded_back
    from orun.stages.compile._compiling import chosen_form, compile_model, tries

    form = chosen_form(context, params.form)
    if params.embed and form != "context":
        raise StageFailed(
            context.stage,
            f"`embed` needs `form: context`, and the form is {form!r}",
            hint="leave `embed` out: a cache lies beside the model",
        )
    engine = compile_model(context, form, embed=params.embed)
    return loaded_back(
        context,
        engine,
        tries(context, params.dims, params.inputs),
        params.launches,
        Tolerance(params.atol, params.rtol),
    )
