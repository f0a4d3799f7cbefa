"""Change a model by a list of edits: inputs and outputs, nodes, constants, parts.

Each item of `edits` does one thing, in the order of the list, and sees the names that the edits before it left:

- `rename`, `axes`, `shapes` and `types` change inputs and outputs, `add_outputs` and `drop_outputs` their number.
- `make_constant` turns inputs into constants, `make_input` constants into inputs.
- `remove` and `replace` change nodes.
- `extract` keeps a piece of the model, `merge` joins it with another model. To split a model at a tensor, extract
  its head in one stage (`outputs: [TENSOR]`) and its tail in another (`inputs: [TENSOR]`).

Both models run on the same inputs. Their outputs must agree, unless an edit may change what the model computes
(`remove`, `replace`, `extract`, `merge`): then `max_abs_error` says how far outputs of the same name differ, and a gate
may judge it. Where no output can be compared, the result must run, and a note says so. `dims` and `inputs` are those
of the edited model. Its input domain follows the edits.

For changes beyond these, write a function: `optimize/python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.optimize._editing.declarations import OTHER, Extract, InputType, Merge, Remove, Replace
from orun.stages.params import Doc, OneKey

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages.optimize._editing.draft import Draft


@dataclass(frozen=True)
class Edit:
    """One edit: exactly one of these keys."""

    rename: Annotated[dict[str, str] | None, Doc("New names of inputs and outputs: `{pixel_values: image}`.")] = None
    axes: Annotated[
        dict[str, int | str] | None,
        Doc("Sizes or new names of dynamic axes, wherever they occur: `{batch: 1, seq: sequence}`."),
    ] = None
    shapes: Annotated[
        dict[str, list[int | str]] | None,
        Doc("All axes of inputs, such as a batch that was fixed: `{image: [batch, 3, 224, 224]}`."),
    ] = None
    types: Annotated[
        dict[str, InputType] | None,
        Doc(
            "Types that inputs take from now on, cast and normalized inside: `{image: {dtype: uint8, scale: 0.0039}}`."
        ),
    ] = None
    add_outputs: Annotated[list[str] | None, Doc("Inner values that become outputs as well.")] = None
    drop_outputs: Annotated[
        list[str] | None, Doc("Outputs to remove, with the nodes that only they need. Inputs stay.")
    ] = None
    make_constant: Annotated[
        dict[str, Any] | None,
        Doc("Values of inputs that become constants. A number fills any shape: `{token_type_ids: 0}`."),
    ] = None
    make_input: Annotated[
        list[str] | None, Doc("Weights and other constants that become inputs; their values are in no file then.")
    ] = None
    remove: Annotated[
        Remove | None, Doc("Nodes to remove: what they get first takes the place of what they yield.")
    ] = None
    replace: Annotated[Replace | None, Doc("Nodes that get another operator.")] = None
    extract: Annotated[Extract | None, Doc("The piece between some values; the rest is dropped.")] = None
    merge: Annotated[Merge | None, Doc("Another model, from the input `other`, put after or before this one.")] = None


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/edit`."""

    edits: Annotated[list[Annotated[Edit, OneKey()]], Doc("What to change, in this order.")]
    check: Annotated[bool, Doc("Compare with the model before it; if off, the result must only run.")] = True
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to edit."),
        OTHER: Port(("onnx",), "The model that `merge` joins with it.", optional=True),
    },
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "onnx-ir", "sympy", "numpy"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the edited model to `context.result`."""
    from orun.stages._graph.agreement import Trial
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import list_external_files, load_graph, save, weigh
    from orun.stages.optimize._editing.comparison import compare

    draft, edits = _open(context), _list_edits()
    for number, edit in enumerate(params.edits):
        changes = {item.name: value for item in fields(edit) if (value := getattr(edit, item.name)) is not None}
        if len(changes) != 1:
            raise context.failed(f"edits[{number}]: an edit has one key", why=f"it has {len(changes)}")
        ((name, value),) = changes.items()
        edits[name](draft, value, f"edits[{number}].{name}")
    result = _close(draft)
    save(result, context.result, external=bool(list_external_files(load_graph(context.model()))))
    tolerance = Tolerance(params.atol, params.rtol) if params.check else None
    error = compare(draft, load_graph(context.result), Trial(params.dims, params.inputs), tolerance)
    metrics = {**weigh(context.result), "nodes_before": weigh(context.model())["nodes"]}
    return metrics if error is None else {**metrics, "max_abs_error": error}


def _list_edits() -> Mapping[str, Callable[[Draft, Any, str], None]]:
    from orun.stages.optimize._editing import constants, interface, nodes, parts

    return {
        "rename": interface.rename,
        "axes": interface.set_axes,
        "shapes": interface.set_shapes,
        "types": interface.set_types,
        "add_outputs": interface.add_outputs,
        "drop_outputs": interface.drop_outputs,
        "make_constant": constants.make_constant,
        "make_input": constants.make_input,
        "remove": nodes.remove,
        "replace": nodes.replace_nodes,
        "extract": parts.extract,
        "merge": parts.merge,
    }


def _open(context: Context) -> Draft:
    import onnx_ir as ir

    from orun.stages._graph.input_domain import read_domain
    from orun.stages._graph.io import iter_graphs, load
    from orun.stages.optimize._editing.draft import Draft

    model = load(context.model())
    if any(getattr(graph, "sparse_initializer", ()) for graph in iter_graphs(model)):
        raise context.failed(
            "the model has sparse weights, which edits would lose",
            hint="a function can change it: `optimize/python` with `form: proto`",
        )
    outputs = {value.name: value.name for value in model.graph.output}
    return Draft(context, ir.from_proto(model), read_domain(model), outputs)


def _close(draft: Draft) -> ModelProto:
    """Return the model with the shapes of its outputs and its input domain."""
    import onnx_ir as ir

    from orun.stages._graph.input_domain import write_domain
    from orun.stages._graph.signature import fit_domain

    result = ir.to_proto(draft.model)
    if draft.reshaped or draft.altered:
        _declare_outputs(draft, result)
    write_domain(result, fit_domain(result, draft.domain))
    return result


def _declare_outputs(draft: Draft, model: ModelProto) -> None:
    """Infer the shapes of outputs anew; an axis that stays unknown gets a name of its own."""
    from orun.stages._graph.symbolic import infer_shapes

    del model.graph.value_info[:]
    tensors = {value.name: value.type.tensor_type for value in model.graph.output if value.type.HasField("tensor_type")}
    ranks = {name: len(tensor.shape.dim) for name, tensor in tensors.items()}
    if draft.altered:
        for tensor in tensors.values():
            tensor.ClearField("shape")
    inferred = {value.name: value.type.tensor_type for value in infer_shapes(draft.context, model).graph.output}
    for name, tensor in tensors.items():
        tensor.shape.CopyFrom(inferred[name].shape)
        missing = ranks[name] - len(tensor.shape.dim) if not inferred[name].HasField("shape") else 0
        for _ in range(missing):
            tensor.shape.dim.add()
        for place, axis in enumerate(tensor.shape.dim):
            if not axis.HasField("dim_value") and not axis.dim_param:
                axis.dim_param = f"{name}_{place}"
