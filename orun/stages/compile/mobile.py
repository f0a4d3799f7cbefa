"""Write a model in ONNX Runtime's own format (`.ort`), for minimal builds that read no other, as on phones.

Beside `model.ort` the artifact holds `required_operators.config`, from which a build with just these operators (and
types) is made. `optimization: fixed` saves the graph as optimized here. `runtime` saves the basic graph with the
optimizations that the device may apply, for builds with CoreML, NNAPI or XNNPACK. The result is compared with the model
on the CPU.

ONNX Runtime's checker says how well CoreML and NNAPI suit the model. `share.nnapi` is the share of nodes that NNAPI
takes, and `partitions.nnapi` in how many partitions; more than two rarely pay. With dynamic axes both take few nodes:
`share_if_fixed.nnapi` is the share with fixed sizes (see `optimize/shapes`). The checker does not cover XNNPACK.
`usability.json` lists the unsupported operators.

A newer ONNX Runtime reads the format, an older one does not. Its bytes differ from run to run, so orun keeps the first
result for equal inputs. A model above 2 GB cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import HIGHER_SHARE, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

CHECKED = ("nnapi", "coreml", "coreml-mlprogram")
LARGEST = 2**31 - 1  # bytes of a flatbuffer
MODEL = "model.ort"


@dataclass(frozen=True)
class Params:
    """Parameters of `compile/mobile`."""

    optimization: Annotated[Literal["fixed", "runtime"], Doc("Optimize the graph now, or let the device choose.")] = (
        "fixed"
    )
    platform: Annotated[
        Literal["arm", "amd64"] | None, Doc("Processor that the optimizations are for; any by default.")
    ] = None
    types: Annotated[bool, Doc("Also list the types that each operator needs, for a smaller build.")] = True
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
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
    metrics={
        "size": SIZE,
        "operators": LOWER,
        "max_abs_error": LOWER,
        **{f"partitions.{name}": LOWER for name in CHECKED},
        **{f"{figure}.{name}": HIGHER_SHARE for figure in ("share", "share_if_fixed") for name in CHECKED},
    },
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write `model.ort`, `required_operators.config` and `usability.json`."""
    from orun.stages._graph.agreement import Trial, check, load_cases, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.limits import build_limits
    from orun.stages._graph.sessions import open_model
    from orun.stages.compile._mobile import convert, measure_usability

    if params.optimization == "runtime" and params.platform == "amd64":
        raise context.failed(
            "`platform: amd64` needs `optimization: fixed`",
            why="layouts for x86-64 processors can be saved only if the graph is optimized now",
        )
    size = sum(file.stat().st_size for file in context.inputs["model"].iterdir())
    if size > LARGEST:
        raise context.failed(
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
    tries = load_cases(context, model, Trial(params.dims, params.inputs))
    expected = run_cases(context, agreement.reference, open_model(context.model(), outputs), tries)
    limits = build_limits(context, context.model(), outputs, None)
    error = check(context, agreement, tries, expected, open_model(context.output / MODEL, outputs), limits)
    return {
        "size": (context.output / MODEL).stat().st_size,
        "operators": operators,
        "max_abs_error": error,
        **measure_usability(context),
    }
