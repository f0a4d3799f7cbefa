"""Apply ONNX Runtime's graph optimizations ahead of time, so that sessions start faster.

`basic` results run on every machine. `extended` fuses to operators of ONNX Runtime for the providers of the target.
`layout` and `all` may depend on this processor, so their results belong on devices of the same kind. The result is
compared with the model before it, on the target, at several sizes of each dynamic axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, TargetName


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/graph`."""

    level: Annotated[
        Literal["disable", "basic", "extended", "layout", "all"], Doc("ONNX Runtime's optimization level.")
    ] = "extended"
    target: Annotated[TargetName | None, Doc("Target with the providers and session options; by default the CPU.")] = (
        None
    )
    skip: Annotated[list[str], Doc("Optimizers to leave out, by ONNX Runtime's names (`MatMulAddFusion`).")] = field(
        default_factory=list
    )
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to optimize.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx"),
    extra="cpu",
    stage_class="device",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the optimized model to `context.result`."""
    from orun.stages._graph.agreement import check_and_weigh
    from orun.stages._graph.io import save
    from orun.stages._graph.ort_graph import optimize, require_optimizers

    require_optimizers(params.skip)
    save(optimize(context.model(), params.level, params.skip, context.target), context.result)
    hint = "try a lower `level`, or leave out the optimizer that does it: `skip: [...]`"
    return check_and_weigh(context, "the optimized model", params, hint=hint)
