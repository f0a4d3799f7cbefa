"""Convert float32 to float16, except for what is named, with ONNX Runtime's converter.

The result is compared with the model before it on random and boundary inputs at several sizes of each dynamic axis;
`atol` and `rtol` say how much precision may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from orun.errors import StageFailed
from orun.metrics import Metric
from orun.stages.contract import Context, Port, Spec
from orun.stages.known import require_known
from orun.stages.onnx.agreement import Atol, Dims, Inputs, Rtol
from orun.stages.params import Doc
from orun.stages.said import failing

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto, ValueInfoProto

    from orun.stages.onnx.agreement import Feed, Model


@dataclass(frozen=True)
class Params:
    """What is converted, and how much it may cost."""

    keep_io_types: Annotated[bool, Doc("Inputs and outputs stay float32.")] = True
    block_types: Annotated[
        list[str], Doc("Types of operators that stay float32, beside those that have no float16 form.")
    ] = field(default_factory=list)
    block_nodes: Annotated[list[str], Doc("Names of nodes that stay float32.")] = field(default_factory=list)
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None
    atol: Atol = 1e-2
    rtol: Rtol = 1e-2


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to convert.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime", "onnxruntime.transformers.float16"),
    metrics=("size", "nodes", "nodes_before", "half_weights", "max_abs_error"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the converted model to `context.result`."""
    from orun.stages.onnx.agreement import Tolerance, Trial, check_against_input
    from orun.stages.onnx.io import save, weigh

    model = _convert(context, params)
    half = _half_weights(model)
    if not half:
        raise StageFailed(
            context.stage,
            "nothing in the model could be converted",
            why="it has no float32 weights, or only such as must stay float32",
        )
    save(model, context.result)
    del model  # before two sessions hold its weights
    error = check_against_input(
        context,
        "the float16 model",
        Trial(params.dims, params.inputs),
        Tolerance(params.atol, params.rtol),
        adapt=partial(_in_float32, context),
        hint="keep what needs range or precision in float32: `block_types`, `block_nodes`",
    )
    return {
        **weigh(context.result),
        "nodes_before": weigh(context.model())["nodes"],
        "half_weights": Metric(half, better="higher"),
        "max_abs_error": error,
    }


def _convert(context: Context, params: Params) -> ModelProto:
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    from orun.stages.onnx.io import load
    from orun.stages.onnx.order import sort_nodes
    from orun.stages.onnx.ort_graph import add_types

    model = load(context.model())
    require_known(context, "block_nodes", params.block_nodes, [node.name for node in model.graph.node])
    require_known(context, "block_types", params.block_types, [node.op_type for node in model.graph.node])
    model = add_types(model)
    passed = _take_passed(model)
    hint = "leave nodes in float32: `block_nodes`, `block_types`"
    with failing(context, "ONNX Runtime's converter cannot make the model float16", hint):
        converted: ModelProto = convert_float_to_float16(
            model,
            keep_io_types=params.keep_io_types,
            disable_shape_infer=True,
            op_block_list=[*DEFAULT_OP_BLOCK_LIST, *params.block_types],
            node_block_list=params.block_nodes,
        )
        _merge_casts(converted)
        sort_nodes(converted.graph)
    _put_passed(converted, passed)
    return converted


def _take_passed(model: ModelProto) -> dict[int, str]:
    """Take outputs away that are inputs as well, which the converter would let cast to themselves; by their places."""
    inputs = {value.name for value in model.graph.input}
    passed = {place: value.name for place, value in enumerate(model.graph.output) if value.name in inputs}
    for place in reversed(passed):
        del model.graph.output[place]
    return passed


def _put_passed(model: ModelProto, passed: Mapping[int, str]) -> None:
    """Put them back, of the type that the input has now."""
    inputs = {value.name: value for value in model.graph.input}
    for place, name in passed.items():
        model.graph.output.insert(place, inputs[name])


def _merge_casts(model: ModelProto) -> None:
    """Keep one of the casts of a value: the converter makes one for each node that reads it, all of one name."""
    casts: set[str] = set()
    kept = []
    for node in model.graph.node:
        if node.op_type != "Cast" or node.output[0] not in casts:
            kept.append(node)
        if node.op_type == "Cast":
            casts.add(node.output[0])
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _half_weights(model: ModelProto) -> int:
    from onnx import TensorProto

    from orun.stages.onnx.io import tensors

    return sum(tensor.data_type == TensorProto.FLOAT16 for tensor in tensors(model))


def _in_float32(context: Context, model: Model) -> Model:
    """The result with float32 for those of its inputs and outputs that became float16."""
    import numpy as np
    from onnx import TensorProto

    from orun.stages.onnx.io import load_graph

    before, after = (load_graph(path).graph for path in (context.model(), context.result))

    def half(values: Iterable[ValueInfoProto]) -> set[str]:
        return {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT16}

    inputs = half(after.input) - half(before.input)
    outputs = [value.name in half(after.output) - half(before.output) for value in before.output]

    def run(feed: Feed) -> Sequence[NDArray[Any]]:
        found = model({name: value.astype(np.float16) if name in inputs else value for name, value in feed.items()})
        return [value.astype(np.float32) if narrowed else value for value, narrowed in zip(found, outputs, strict=True)]

    return run
