"""Remove the weights of smallest magnitude: as zeros in place, or as channels, so that the graph shrinks.

- `magnitude` sets weights of Conv, Gemm and MatMul to zero. Size and speed stay, but the model compresses better, and
  runs faster where a runtime uses zeros.
- `structured` removes the output channels with the smallest weights from convolutions and matrix products, along with
  the biases, normalizations and depthwise convolutions after them and the rows of the layers that read them. A layer
  keeps channels that reach anything else (a residual sum, a Reshape, an output of the model); the log says why.

Only real data show how good the result is: put `measure/accuracy` after it. This stage only checks that it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import GAIN, HIGHER_SHARE, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Dims
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range, Ratio

if TYPE_CHECKING:
    from onnx import ModelProto

REASONS = 3  # shown when no layer can be pruned


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/prune`."""

    method: Annotated[Literal["magnitude", "structured"], Doc("Set weights to zero, or remove channels.")] = "magnitude"
    proportion: Annotated[Ratio, Doc("Share of the weights or channels to remove."), Range(0, 1)] = Ratio(0.5)
    scope: Annotated[
        Literal["layer", "global"],
        Doc("Apply the proportion to each layer, or rank all layers together, so that some lose more."),
    ] = "layer"
    op_types: Annotated[list[Literal["Conv", "Gemm", "MatMul"]], Doc("Layer types to prune.")] = field(
        default_factory=lambda: ["Conv", "Gemm", "MatMul"]
    )
    exclude: Annotated[
        list[str],
        Doc(
            "Names of nodes that keep their weights and output channels; `structured` removes the weights for channels "
            "that they no longer get."
        ),
    ] = field(default_factory=list)
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to prune.")},
    tools=("onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    preload=("onnx", "onnxruntime"),
    metrics={
        "size": SIZE,
        "nodes": LOWER,
        "parameters": LOWER,
        "removed": GAIN,
        "sparsity": HIGHER_SHARE,
        "max_abs_error": LOWER,
    },
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the pruned model to `context.result`."""
    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.io import iter_nodes, load, save, weigh
    from orun.stages._graph.plain import hoist, inline

    if params.method == "structured" and params.proportion >= 1:
        raise context.failed(
            "`method: structured` cannot remove 100 % of the channels",
            why="a layer without channels computes nothing",
            hint="lower `proportion`",
        )
    model = inline(load(context.model()))
    require_known("exclude", params.exclude, [node.name for node in iter_nodes(model)])
    hoist(model)
    before, _ = _count(model)
    _prune(context, model, params)
    after, zeros = _count(model)
    save(model, context.result)
    del model  # before two sessions hold its weights
    error = check_against_input(context, "the pruned model", Trial(params.dims, params.inputs), None)
    return {
        **weigh(context.result),
        "parameters": after,
        "removed": before - after,
        "sparsity": zeros / after,
        "max_abs_error": error,
    }


def _prune(context: Context, model: ModelProto, params: Params) -> None:
    """Prune the model in place; refuse it if nothing can be removed."""
    from orun.stages.optimize._pruning.channels import computes_weights
    from orun.stages.optimize._pruning.weights import Choice, shrink, zero

    choice = Choice(params.proportion, params.scope == "global", params.op_types, params.exclude)
    reasons: list[str] = []
    if params.method == "magnitude":
        pruned = zero(model, choice)
    else:
        layers = shrink(model, choice, reasons.append)
        pruned = len(layers)
        for layer in layers:
            name = layer.node.name or layer.node.output[0]
            context.log.info("%s %r lost some of its %d channels", layer.node.op_type, name, layer.channels)
    for reason in reasons:
        context.log.info(reason)
    if not pruned:
        if computes_weights(model):
            hint = "`optimize/simplify` before it stores what the model computes from weights alone"
        elif params.method == "structured":
            hint = "`method: magnitude` sets weights to zero where a layer keeps its channels"
        else:
            hint = "leave the stage out"
        raise context.failed(
            "nothing in the model could be pruned",
            why="\n".join(reasons[:REASONS]) or f"it has no {', '.join(params.op_types)} with enough stored weights",
            hint=hint,
        )


def _count(model: ModelProto) -> tuple[int, int]:
    """Return how many floating-point numbers a model stores, and how many are zero."""
    import numpy as np
    from onnx import numpy_helper

    count = zeros = 0
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            count += array.size
            zeros += array.size - int(np.count_nonzero(array))
    return count, zeros
