"""Write a model in ONNX Runtime's own format (`.ort`), for builds of it that can read no other, as on phones.

Beside `model.ort` lies `required_operators.config`, from which a build with just these operators (and types) is made.
`optimization: fixed` saves the graph as it is optimized here; `runtime` keeps it basic and saves what the device may
apply by itself, for builds with CoreML, NNAPI or XNNPACK. The result is compared with the model on the CPU.

ONNX Runtime's own checker says how well CoreML and NNAPI would take the model as it is: `share.nnapi` is the share of
the nodes that it would take and `partitions.nnapi` in how many pieces; more than two hardly ever pay. With dynamic axes
they take little: `share_if_fixed.nnapi` is what they would take if the sizes were fixed (see `optimize/shapes`). It
knows nothing of XNNPACK. `usability.json` holds the operators that are in the way.

The format is bound to the version of ONNX Runtime at the older end: a newer one reads it. Its bytes differ from run to
run, so that of equal inputs the first result is kept. A model above 2 GB cannot be written in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.agreement import Atol, Dims, Inputs, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

CHECKED = ("nnapi", "coreml", "coreml-mlprogram")
LARGEST = 2**31 - 1  # bytes of a flatbuffer
MODEL = "model.ort"


@dataclass(frozen=True)
class Params:
    """How to write it, and for what."""

    optimization: Annotated[
        Literal["fixed", "runtime"], Doc("Optimize now, or keep what the device may still choose.")
    ] = "fixed"
    platform: Annotated[
        Literal["arm", "amd64"] | None, Doc("Processor whose optimizations are saved; any when left out.")
    ] = None
    types: Annotated[bool, Doc("List the types that each operator needs, too, for a still smaller build.")] = True
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to write.")},
    output="files",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    deterministic=False,
    preload=("numpy", "onnx"),
    metrics=(
        "size",
        "operators",
        "max_abs_error",
        *(f"{figure}.{name}" for figure in ("share", "partitions", "share_if_fixed") for name in CHECKED),
    ),
    units={"size": "B"},
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Leave `model.ort`, `required_operators.config` and `usability.json`."""
    from orun.stages._graph.agreement import Agreement, Trial, check, run_cases, tries_for
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.limits import limits_of
    from orun.stages._graph.sessions import session
    from orun.stages.compile._mobile import convert, usability

    if params.optimization == "runtime" and params.platform == "amd64":
        raise StageFailed(
            context.stage,
            "`platform: amd64` needs `optimization: fixed`",
            why="what is laid out for x86-64 processors can only be saved when the graph is optimized now",
        )
    size = sum(file.stat().st_size for file in context.inputs["model"].iterdir())
    if size > LARGEST:
        raise StageFailed(
            context.stage,
            f"a model of {size} bytes cannot be written as {MODEL}",
            why=f"the format ends at {LARGEST} bytes",
            hint="make it smaller first: quantize/weights, optimize/float16",
        )
    operators = convert(context, params.optimization, params.platform, types=params.types)
    model = load_graph(context.model())
    outputs = [output.name for output in model.graph.output]
    agreement = Agreement(
        MODEL, "the model before it", outputs, Tolerance(params.atol, params.rtol), "try `optimization: runtime`"
    )
    tries = tries_for(context, model, Trial(params.dims, params.inputs))
    expected = run_cases(context, agreement.reference, session(context.model(), outputs), tries)
    limits = limits_of(context, context.model(), outputs, None)
    error = check(context, agreement, tries, expected, session(context.output / MODEL, outputs), limits)
    return {
        "size": Metric((context.output / MODEL).stat().st_size, "B", "lower"),
        "operators": Metric(operators, better="lower"),
        "max_abs_error": error,
        **usability(context),
    }
