"""Change a model with a function of your own, and check the result.

The function takes the model with all weights in memory, and returns it changed: an `onnx.ModelProto`, or with `form:
ir` an `onnx_ir.Model`, as the passes and rewrite rules of onnx-ir and onnxscript use. The result is compared with the
model before it on random and boundary inputs at several sizes of each dynamic axis, unless `check` is off.

With `interface: changed` it may have other inputs and outputs, such as a non-maximum suppression after a detector, or
the scaling of pixels before it. Outputs of both models are compared where their inputs are the same. Otherwise the
stage only checks that the result runs, so `measure/accuracy` should follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.ensure import check_interface
from orun.stages.params import Code, Doc

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/python`."""

    function: Annotated[Code, Doc("Function that takes a model and returns the changed model.")]
    form: Annotated[Literal["proto", "ir"], Doc("Its type of model: `onnx.ModelProto` or `onnx_ir.Model`.")] = "proto"
    check: Annotated[bool, Doc("The result must compute the same; if off, it must only run and be finite.")] = True
    interface: Annotated[
        Literal["same", "changed"], Doc("Whether the result has the inputs and outputs of the model before it.")
    ] = "same"
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to change.")},
    tools=("onnx", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the changed model to `context.result`."""
    from orun.stages._graph.agreement import Trial, check_against_input, run_alone
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph, save, weigh
    from orun.stages._graph.signature import find_shared_outputs

    save(_change(context, params), context.result)
    before, after = load_graph(context.model()), load_graph(context.result)
    metrics = {**weigh(context.result), "nodes_before": weigh(context.model())["nodes"]}
    if params.interface == "same":
        check_interface(context.stage, before, after, "`interface: changed` where that is meant")
    shared = find_shared_outputs(before, after)
    if not shared:
        count = run_alone(context, "the changed model", Trial(params.dims, params.inputs))
        context.log.info("ran the changed model on %d inputs: it takes others than before, or yields others", count)
        return metrics
    error = check_against_input(
        context,
        "the changed model",
        Trial(params.dims, params.inputs),
        Tolerance(params.atol, params.rtol) if params.check else None,
        outputs=shared,
        hint=f"look at what {params.function} changes; `check: false` where that is meant",
    )
    return {**metrics, "max_abs_error": error}


def _change(context: Context, params: Params) -> ModelProto:
    from onnx import ModelProto

    from orun.stages._graph.io import load

    function = context.load(params.function, ("model",))
    wanted: type[Any] = ModelProto
    model: Any = load(context.model())
    if params.form == "ir":
        import onnx_ir

        wanted, model = onnx_ir.Model, onnx_ir.from_proto(model)
    changed = function(model)
    if not isinstance(changed, wanted):
        raise context.failed(
            f"{params.function} must return a {wanted.__name__}",
            why=f"it returned a {type(changed).__name__}",
            hint="`form` says whether it gets and returns an onnx.ModelProto or an onnx_ir.Model",
        )
    result: ModelProto = changed if params.form == "proto" else onnx_ir.to_proto(changed)
    return result
