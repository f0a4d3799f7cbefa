"""Convert float32 to float16 or bfloat16, except for chosen nodes.

float16 uses ONNX Runtime's converter. The result is compared with the model before it on random and boundary inputs at
several sizes of each dynamic axis, within the input domain of the model, or on your `inputs`. Values that depend on
attention rows that see nothing are not compared; a note says how many they were. `atol` and `rtol` limit the loss of
precision. With `mixed: true` the stage searches for the nodes that lose more, by halving, and keeps them in float32;
the log names them.

`to: bfloat16` has the range of float32 and 8 bits of precision. It converts each operator that supports bfloat16 in the
model's operator set (Conv and pooling from version 22 on: `convert/opset`). Fused operators and those of other domains
stay float32, so convert before `optimize/transformer` where possible. ONNX Runtime 1.31 has bfloat16 kernels for GPUs
and hardly any for the CPU. Therefore the check computes in float32 and rounds the result of each operator, and the
result cannot be measured on a CPU. OpenVINO computes float32 models in bfloat16 with a setting of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.library_errors import failing
from orun.stages.name_checks import require_known
from orun.stages.params import Doc

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, ValueInfoProto

    from orun.stages._graph.sessions import Feed, Model


QUANTIZING = ("QuantizeLinear", "DequantizeLinear")  # they stay float32: scales need the precision


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/float16`."""

    to: Annotated[Literal["float16", "bfloat16"], Doc("Type that replaces float32.")] = "float16"
    keep_io_types: Annotated[bool, Doc("Keep inputs and outputs in float32.")] = True
    block_types: Annotated[list[str], Doc("Further operator types that stay float32.")] = field(default_factory=list)
    block_nodes: Annotated[list[str], Doc("Names of nodes that stay float32.")] = field(default_factory=list)
    mixed: Annotated[bool, Doc("Search for further nodes that must stay float32 to meet `atol` and `rtol`.")] = False
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-2
    rtol: Rtol = 1e-2


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to convert.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "ml-dtypes", "numpy"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime", "onnxruntime.transformers.float16"),
    metrics={
        "size": SIZE,
        **dict.fromkeys(("nodes", "nodes_before", "kept", "max_abs_error"), LOWER),
        "half_weights": HIGHER,
    },
)
LARGEST = 65504.0  # of float16
NOTHING = "nothing in the model could be converted"


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the converted model to `context.result`."""
    from orun.stages._graph.io import load_graph, save, weigh

    _require_names(context, params)
    if not _count_weights(load_graph(context.model()), "float"):
        raise context.failed(NOTHING, why="it has no float32 weights")
    kept = _search_float32_nodes(context, params) if params.mixed else []
    model = _convert(context, params, kept)
    half = _count_weights(model, params.to)
    if not half:
        raise context.failed(NOTHING, why="all of its float32 weights must stay float32")
    save(model, context.result)
    del model  # before two sessions hold its weights
    error = _compare(context, params)
    return {
        **weigh(context.result),
        "nodes_before": weigh(context.model())["nodes"],
        "half_weights": half,
        "kept": len(kept),
        "max_abs_error": error,
    }


def _require_names(context: Context, params: Params) -> None:
    from orun.stages._graph.io import iter_nodes, load_graph
    from orun.stages._graph.plain import inline

    present = [*iter_nodes(inline(load_graph(context.model())))]
    require_known("block_nodes", params.block_nodes, [node.name for node in present])
    require_known("block_types", params.block_types, [node.op_type for node in present])


def _compare(context: Context, params: Params) -> float:
    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.differences import Tolerance

    narrow = params.to == "bfloat16"
    return check_against_input(
        context,
        f"the {params.to} model",
        Trial(params.dims, params.inputs),
        Tolerance(params.atol, params.rtol, None if narrow else ("float16", LARGEST)),
        adapt=None if narrow else partial(_adapt_to_float32, context),
        stand_in=_write_rounded(context) if narrow else None,
        hint="keep what needs range or precision in float32: "
        + ("`block_types`" if params.mixed else "`mixed: true`, `block_types`, `block_nodes`"),
    )


def _write_rounded(context: Context) -> Path:
    """Write a copy of the result that the CPU can run: in float32, with each value rounded to bfloat16."""
    from orun.stages._graph.bfloat16 import emulate
    from orun.stages._graph.io import load, save

    model = load(context.result)
    emulate(model)
    path = Path("rounded.onnx")  # in the temporary working folder
    save(model, path)
    return path


def _search_float32_nodes(context: Context, params: Params) -> list[str]:
    """Search for the nodes that must stay float32 to meet the tolerance; return the values that they yield."""
    from orun.errors import OrunError
    from orun.stages._graph.io import load_graph, save
    from orun.stages._graph.plain import inline
    from orun.stages.halving import find_needed

    blocked = {*_list_blocked_types(params), "Constant"}
    nodes = inline(load_graph(context.model())).graph.node
    # The first value that a node yields identifies it; a name may be missing.
    free = [next(filter(None, node.output)) for node in nodes if node.op_type not in blocked]
    tried = replace(context, notes=[])  # notes on a trial do not hold for the result

    def suffices(kept: Collection[str]) -> bool:
        try:
            save(_convert(context, params, kept), context.result)
            _compare(tried, params)
        except OrunError as error:
            context.log.info("with %d of %d nodes in float32: %s", len(kept), len(free), error)
            return False
        finally:
            for path in context.output.iterdir():
                path.unlink()
        return True

    kept = find_needed(free, suffices)
    context.log.info("%d of %d nodes stay float32:\n  %s", len(kept), len(free), "\n  ".join(kept))
    return kept


def _list_blocked_types(params: Params) -> list[str]:
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    return [*DEFAULT_OP_BLOCK_LIST, *params.block_types]


def _convert(context: Context, params: Params, kept: Collection[str]) -> ModelProto:
    """Return the converted model; nodes that yield one of the values `kept` stay float32."""
    from orun.stages._graph.bfloat16 import narrow
    from orun.stages._graph.float16 import to_float16
    from orun.stages._graph.io import load
    from orun.stages._graph.ort_graph import add_types
    from orun.stages._graph.plain import inline

    model = add_types(inline(load(context.model())))
    if params.to == "float16":
        blocks = _list_blocked_types(params), params.block_nodes
        hint = "leave nodes in float32: `block_nodes`, `block_types`"
        with failing(context, "ONNX Runtime's converter cannot make the model float16", hint):
            return to_float16(model, *blocks, kept, keep_io_types=params.keep_io_types)
    blocked, wanted = {*_list_blocked_types(params), *QUANTIZING}, set(kept)

    def stays(node: NodeProto) -> bool:
        return node.op_type in blocked or node.name in params.block_nodes or not wanted.isdisjoint(node.output)

    narrow(model, stays, keep_io_types=params.keep_io_types)
    return model


def _count_weights(model: ModelProto, kind: str) -> int:
    from onnx import TensorProto

    from orun.stages._graph.io import iter_tensors

    number = TensorProto.DataType.Value(kind.upper())
    return sum(tensor.data_type == number for tensor in iter_tensors(model))


def _adapt_to_float32(context: Context, model: Model) -> Model:
    """Adapt the result: float32 for the inputs and outputs that became float16."""
    import numpy as np
    from onnx import TensorProto

    from orun.stages._graph.io import load_graph

    before, after = (load_graph(path).graph for path in (context.model(), context.result))

    def list_half(values: Iterable[ValueInfoProto]) -> set[str]:
        return {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT16}

    inputs = list_half(after.input) - list_half(before.input)
    outputs = [value.name in list_half(after.output) - list_half(before.output) for value in before.output]

    def run(feed: Feed) -> Sequence[NDArray[Any]]:
        answers = model({name: value.astype(np.float16) if name in inputs else value for name, value in feed.items()})
        return [
            value.astype(np.float32) if narrowed else value for value, narrowed in zip(answers, outputs, strict=True)
        ]

    return run
