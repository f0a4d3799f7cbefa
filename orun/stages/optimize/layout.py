"""Change the layout of a model's images to channels last (NHWC) or channels first (NCHW).

Cameras and TensorFlow use channels last. The stage puts a Transpose after each changed input and before each changed
output. ONNX Runtime's `basic` optimizations then move these through the graph and cancel them: a model from TensorFlow
loses its own when it takes channels first. ONNX's convolutions take channels first, so a model of them keeps the
Transpose of its input. For layouts inside the model see `optimize/graph` with `level: layout`.

The result is compared with the model before it, with values transposed, at several sizes of each dynamic axis.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto, ValueInfoProto

    from orun.stages._graph.sessions import Feed, Model

IMAGES = 4  # axes of a batch of images
LEAST = 3  # axes of a value with a batch, channels and places


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/layout`."""

    to: Annotated[Literal["nhwc", "nchw"], Doc("New place of the channels: last, or second.")] = "nhwc"
    values: Annotated[list[str] | None, Doc("Inputs and outputs to change; by default those of four axes.")] = None
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to change.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime"),
    metrics={
        "size": SIZE,
        **dict.fromkeys(("nodes", "nodes_before", "transposes", "transposes_before", "max_abs_error"), LOWER),
    },
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the changed model to `context.result`."""
    from orun.stages._graph.agreement import check_and_weigh
    from orun.stages._graph.io import load, save
    from orun.stages._graph.ort_graph import IN_THE_WAY, optimize

    model = load(context.model())
    ranks = _choose_values(context, model, params)
    before = _count_transposes(model)
    for value in (*model.graph.input, *model.graph.output):
        if value.name in ranks:
            _transpose(model, value, to_last=params.to == "nhwc", is_input=value in model.graph.input)
    turned = Path("turned.onnx")  # in the temporary working folder
    save(model, turned, external=True)
    result = optimize(turned, "basic", IN_THE_WAY)
    transposes = _count_transposes(result)
    save(result, context.result)
    adapt = partial(_as_before, ranks, [value.name for value in result.graph.output], params.to)
    return {
        **check_and_weigh(context, "the turned model", params, adapt=adapt),
        "transposes": transposes,
        "transposes_before": before,
    }


def _choose_values(context: Context, model: ModelProto, params: Params) -> dict[str, int]:
    """Return the values to transpose, with their numbers of axes."""
    from orun.stages._graph.signature import list_inputs

    values = (*list_inputs(model), *model.graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    if params.values is None:
        chosen = {name: rank for name, rank in ranks.items() if rank == IMAGES}
    else:
        require_known("values", params.values, ranks)
        chosen = {name: ranks[name] for name in params.values}
        if flat := [name for name, rank in chosen.items() if rank < LEAST]:
            raise context.failed(
                f"{', '.join(flat)} cannot be turned",
                why="a value with a batch, channels and places has three axes or more",
            )
    if not chosen:
        shown = ", ".join(f"{name} has {rank}" for name, rank in ranks.items())
        raise context.failed(
            "the model has no images to turn",
            why=f"none of its inputs and outputs has four axes: {shown}",
            hint="name those to turn: `values: [...]`",
        )
    return chosen


def order_axes(rank: int, *, to_last: bool) -> list[int]:
    """Return the axes of a value in their new order: channels from second to last, or back."""
    return [0, *range(2, rank), 1] if to_last else [0, rank - 1, *range(1, rank - 1)]


def _transpose(model: ModelProto, value: ValueInfoProto, *, to_last: bool, is_input: bool) -> None:
    """Transpose an input or output; inside the model, the value before or after the Transpose gets another name."""
    from onnx import helper

    from orun.stages._graph.io import iter_nodes
    from orun.stages._graph.names import make_unique, rename_values
    from orun.stages._graph.nodes import set_items

    graph = model.graph
    axes = value.type.tensor_type.shape.dim
    order = order_axes(len(axes), to_last=to_last)
    used = {name for node in iter_nodes(model) for name in (*node.input, *node.output)}
    inner = make_unique(f"{value.name}_inner", used)
    rename_values(model, {value.name: inner})
    back = order_axes(len(axes), to_last=not to_last)
    set_items(axes, [axes[place] for place in order])
    if is_input:
        graph.node.insert(0, helper.make_node("Transpose", [value.name], [inner], f"{inner}_turned", perm=back))
    else:
        graph.node.append(helper.make_node("Transpose", [inner], [value.name], f"{inner}_turned", perm=order))


def _count_transposes(model: ModelProto) -> int:
    from orun.stages._graph.io import iter_nodes

    return sum(node.op_type == "Transpose" for node in iter_nodes(model))


def _as_before(ranks: Mapping[str, int], outputs: Collection[str], to: str, model: Model) -> Model:
    """Adapt the result: inputs and outputs in the layout of the model before it."""
    to_last = to == "nhwc"

    def run(feed: Feed) -> Sequence[NDArray[Any]]:
        turned = {
            name: value.transpose(order_axes(ranks[name], to_last=to_last)) if name in ranks else value
            for name, value in feed.items()
        }
        return [
            value.transpose(order_axes(ranks[name], to_last=not to_last)) if name in ranks else value
            for name, value in zip(outputs, model(turned), strict=True)
        ]

    return run
