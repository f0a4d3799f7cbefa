"""Edits of inputs and outputs: names, axes, types, further and fewer outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from orun.core import dynamic_axes
from orun.core.serialization import replace
from orun.measure.dataset import Array
from orun.stages._graph.input_domain import InputDomain, InputValues
from orun.stages._graph.names import make_unique
from orun.stages._graph.sessions import Feed
from orun.stages.name_checks import require_known
from orun.stages.optimize._editing.declarations import InputType
from orun.stages.optimize._editing.draft import Draft, Prologue, list_axes

BYTES = ("uint8", "int8")


def rename(draft: Draft, names: Mapping[str, str], place: str) -> None:
    """Rename inputs and outputs; an inner value of such a name gets another one."""
    inputs = draft.inputs
    values = {**inputs, **{value.name or "": value for value in draft.model.graph.outputs}}
    require_known(place, names, values)
    final = [names.get(name, name) for name in values]
    if unnamed := next((name for name, new in names.items() if not new), ""):
        raise draft.failed(place, f"{unnamed!r} cannot be renamed to ''")
    if twice := next((name for name in final if final.count(name) > 1), ""):
        raise draft.failed(place, f"two inputs or outputs would have the name {twice!r}")
    used = draft.list_names() | set(final)
    public = set(map(id, values.values()))
    for value in [*draft.iter_values()]:
        if value.name in names.values() and id(value) not in public:
            ir.convenience.rename_values(value, make_unique(f"{value.name}_inner", used))
    ir.convenience.rename_values([values[name] for name in names], list(names.values()))
    former = {new: old for old, new in names.items() if old in inputs}
    draft.steps_back.append(lambda feed: {former.get(name, name): value for name, value in feed.items()})
    draft.outputs = {names.get(name, name): before for name, before in draft.outputs.items()}
    draft.fixed_values = {names.get(name, name): value for name, value in draft.fixed_values.items()}
    draft.domain = replace(
        draft.domain, inputs={names.get(name, name): values for name, values in draft.domain.inputs.items()}
    )


def set_axes(draft: Draft, sizes: Mapping[str, int | str], place: str) -> None:
    """Fix dynamic axes to a size, or rename them, wherever they occur."""
    dynamic = {axis for value in draft.inputs.values() for axis in list_axes(value) if isinstance(axis, str)}
    require_known(place, sizes, dynamic_axes.list_free([sorted(dynamic)]))
    fixed = {name: size for name, size in sizes.items() if isinstance(size, int)}
    names = {name: text for name, text in sizes.items() if isinstance(text, str)}
    for name, size in sizes.items():
        _require_axis(draft, f"the axis {name!r}", size, place)
    left = {names.get(name, name) for text in dynamic for name in dynamic_axes.list_names(text)}

    def change(axis: int | str | None) -> int | str | None:
        axis = dynamic_axes.substitute(axis, fixed) if isinstance(axis, str) else axis
        return dynamic_axes.rename(axis, names) if isinstance(axis, str) else axis

    outputs = set(map(id, draft.model.graph.outputs))
    for value in draft.iter_values():
        if value.shape is None:
            continue
        changed = [change(axis) for axis in list_axes(value)]
        for index, axis in enumerate(changed if fixed and id(value) in outputs else ()):
            if isinstance(axis, str) and not left.issuperset(dynamic_axes.list_names(axis)):
                changed[index] = None  # an axis with a name of its own follows from those that are fixed
        value.shape = ir.Shape(changed)
    draft.reshaped = draft.reshaped or bool(fixed)
    kept = {names.get(name, name): tried for name, tried in draft.domain.sizes.items() if name not in fixed}
    draft.domain = replace(draft.domain, sizes=kept)


def _require_axis(draft: Draft, subject: str, size: int | str, place: str) -> None:
    if size == "" or (isinstance(size, int) and size < 1):
        raise draft.failed(place, f"{subject} cannot be {size!r}")


def set_shapes(draft: Draft, shapes: Mapping[str, Sequence[int | str]], place: str) -> None:
    """Declare the axes of inputs anew; outputs follow."""
    inputs = draft.inputs
    require_known(place, shapes, inputs)
    for name, shape in shapes.items():
        before = list_axes(inputs[name])
        if len(before) != len(shape) and inputs[name].shape is not None:
            raise draft.failed(place, f"input {name!r} has {len(before)} axes, not {len(shape)}")
        for axis in shape:
            _require_axis(draft, f"an axis of {name!r}", axis, place)
        for old, new in zip(before, shape, strict=False):
            if isinstance(old, int) and isinstance(new, str):
                draft.sizes[new] = (old,)
            elif isinstance(old, int) and old != new:
                draft.outputs.clear()  # the model before it takes no such input
        inputs[name].shape = ir.Shape(shape)
    known = set(map(id, inputs.values()))
    for value in draft.iter_values():
        if id(value) not in known and not value.is_initializer() and value.shape is not None:
            value.shape = ir.Shape([None] * len(value.shape)) if value.is_graph_output() else None
    draft.reshaped = True


def set_types(draft: Draft, types: Mapping[str, InputType], place: str) -> None:
    """Let inputs take another type, and cast and normalize inside the model."""
    inputs = draft.inputs
    require_known(place, types, inputs)
    for name, change in types.items():
        _set_type(draft, inputs[name], change, place)


def _set_type(draft: Draft, value: ir.Value, change: InputType, place: str) -> None:
    name, former, graph = value.name or "", value.dtype, draft.model.graph
    if former is None or former in (ir.DataType.STRING, ir.DataType.BOOL):
        raise draft.failed(place, f"input {name!r} is of {former}, and only numbers can be cast")
    normalized = change.scale != 1 or change.mean or change.std
    if normalized and not former.is_floating_point():
        raise draft.failed(place, f"input {name!r} is of {former}: `scale`, `mean` and `std` need floats")
    if name in draft.fixed_values:
        raise draft.failed(place, f"{name!r} was a constant until an edit before", hint="leave its type as it is")
    steps = _build_steps(draft, value, change, former.numpy(), place)
    public = ir.val(name, ir.DataType.from_numpy(np.dtype(change.dtype)), value.shape)
    value.name = make_unique(f"{name}_{former.name.lower()}", draft.list_names())
    prologue = Prologue(draft, name)
    result = prologue.add_node("Cast", [public], to=int(former))
    for op_type, constant in steps:
        result = prologue.add_node(op_type, [result, prologue.add_constant(constant)])
    graph.inputs[graph.inputs.index(value)] = public
    prologue.replace(value, result)
    draft.steps_back.append(_build_step_back(name, former, steps))
    draft.domain = replace(draft.domain, inputs={**draft.domain.inputs, **_adapt_values(draft.domain, name, change)})


def _build_steps(
    draft: Draft, value: ir.Value, change: InputType, dtype: np.dtype[Any], place: str
) -> list[tuple[str, Array]]:
    """Return the operators after the cast, each with its constant."""
    axes = list_axes(value)
    steps = [("Mul", np.array(change.scale, dtype))] if change.scale != 1 else []
    for op_type, name, numbers in (("Sub", "mean", change.mean), ("Div", "std", change.std)):
        channels = axes[change.axis] if change.axis < len(axes) else "no"
        if len(numbers) > 1 and channels != len(numbers):
            raise draft.failed(
                place,
                f"{name} has {len(numbers)} numbers for {channels} channels of {value.name!r}",
                hint="`axis` says which axis holds the channels",
            )
        shape = (len(numbers), *(1,) * (len(axes) - change.axis - 1)) if len(numbers) > 1 else ()
        steps += [(op_type, np.array(numbers, dtype).reshape(shape))] if numbers else []
    return steps


def _build_step_back(name: str, former: ir.DataType, steps: Sequence[tuple[str, Array]]) -> Callable[[Feed], Feed]:
    """Return the step back: what the model computes of the new input, in NumPy."""
    operators: Mapping[str, Callable[[Array, Array], Array]] = {
        "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide,
    }  # fmt: skip

    def step_back(feed: Feed) -> Feed:
        value = feed[name].astype(former.numpy())
        for op_type, constant in steps:
            value = operators[op_type](value, constant)
        return {**feed, name: value}

    return step_back


def _adapt_values(domain: InputDomain, name: str, change: InputType) -> dict[str, InputValues]:
    before = domain.inputs.get(name, InputValues())
    bounded = before.low is not None or before.high is not None
    if change.dtype in BYTES and (change.mean or change.std or not bounded) and before.fill == "random":
        return {name: InputValues(low=0, high=255) if change.dtype == "uint8" else InputValues(low=-128, high=127)}
    if change.mean or change.std:
        return {name: replace(before, low=None, high=None)}
    low, high = (None if bound is None else bound / change.scale for bound in (before.low, before.high))
    return {name: replace(before, low=low, high=high)} if name in domain.inputs else {}


def add_outputs(draft: Draft, names: Sequence[str], place: str) -> None:
    """Make inner values outputs as well."""
    draft.infer()
    graph = draft.model.graph
    values = ir.convenience.create_value_mapping(graph, include_subgraphs=False)
    require_known(place, names, values)
    for name in names:
        if values[name].is_graph_output():
            raise draft.failed(place, f"{name!r} is an output already")
        require_typed(draft, values[name], place)
        graph.outputs.append(values[name])


def require_typed(draft: Draft, value: ir.Value, place: str) -> None:
    """Refuse a value that cannot be an input or output, because its type or number of axes is not known."""
    if value.type is None or value.shape is None:
        raise draft.failed(
            place,
            f"the type of {value.name!r} cannot be worked out",
            hint="choose a value nearby, or simplify the model first",
        )


def drop_outputs(draft: Draft, names: Sequence[str], place: str) -> None:
    """Remove outputs, and the nodes that only they need; inputs stay."""
    graph = draft.model.graph
    require_known(place, names, [value.name or "" for value in graph.outputs])
    kept = [value for value in graph.outputs if value.name not in names]
    if not kept:
        raise draft.failed(place, "a model needs an output, and all would be dropped")
    graph.outputs[:] = kept
    draft.outputs = {name: before for name, before in draft.outputs.items() if name not in names}
    RemoveUnusedNodesPass()(draft.model)
