"""Edits between inputs and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from orun.core.serialization import replace
from orun.measure.dataset import Array
from orun.stages._graph.input_domain import InputValues
from orun.stages._graph.names import make_unique
from orun.stages._graph.sessions import Feed
from orun.stages.name_checks import require_known
from orun.stages.optimize._editing.draft import Draft, Prologue, list_axes


def make_constant(draft: Draft, values: Mapping[str, Any], place: str) -> None:
    """Turn inputs into constants; one number fills an input of any shape."""
    inputs = draft.inputs
    require_known(place, values, inputs)
    for name, number in values.items():
        value = inputs[name]
        array = _to_array(draft, value, number, place)
        draft.model.graph.inputs.remove(value)
        if all(isinstance(axis, int) for axis in list_axes(value)):
            _store(draft, value, _spread(draft, value, array, place))
        else:
            _expand(draft, value, array, place)
        draft.fixed_values.pop(name, None)
    draft.domain = replace(
        draft.domain, inputs={name: bounds for name, bounds in draft.domain.inputs.items() if name not in values}
    )


def _to_array(draft: Draft, value: ir.Value, number: Any, place: str) -> Array:
    if value.dtype is None or value.shape is None:
        raise draft.failed(place, f"input {value.name!r} is no tensor of known shape")
    try:
        exact = np.array(number)
        array = exact.astype(value.dtype.numpy())
        is_exact = value.dtype.is_floating_point() or bool((array == exact).all())
    except (TypeError, ValueError, OverflowError):
        is_exact = False
    if not is_exact:
        raise draft.failed(place, f"{number!r} is no value of {value.name!r}, which is of {value.dtype}")
    return array


def _spread(draft: Draft, value: ir.Value, array: Array, place: str) -> Array:
    shape = tuple(axis for axis in list_axes(value) if isinstance(axis, int))
    try:
        return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(shape)
    except ValueError:
        raise draft.failed(
            place, f"a value of shape {list(array.shape)} does not fill {value.name!r}, which is {list(shape)}"
        ) from None


def _store(draft: Draft, value: ir.Value, array: Array) -> None:
    name = value.name or ""
    value.const_value = ir.tensor(array, dtype=value.dtype, name=name)
    draft.model.graph.register_initializer(value)
    draft.steps_back.append(lambda feed: {**feed, name: array})


def _expand(draft: Draft, value: ir.Value, array: Array, place: str) -> None:
    """Replace an input with dynamic axes by a number, expanded to the axes that other inputs have."""
    name = value.name or ""
    if array.size != 1:
        raise draft.failed(
            place, f"input {name!r} has dynamic axes, which only a single number fills", hint="fix them first: `axes`"
        )
    sources = [axis if isinstance(axis, int) else _find_source(draft, value, axis, place) for axis in list_axes(value)]
    prologue = Prologue(draft, name)

    def add_size(source: int | tuple[ir.Value, int]) -> ir.Value:
        if isinstance(source, int):
            return prologue.add_constant(np.array([source], np.int64))
        place = prologue.add_constant(np.array([source[1]], np.int64))
        return prologue.add_node("Gather", [prologue.add_node("Shape", [source[0]]), place], axis=0)

    shape = prologue.add_node("Concat", [add_size(source) for source in sources], axis=0)
    prologue.replace(value, prologue.add_node("Expand", [prologue.add_constant(array.reshape(())), shape]))
    draft.steps_back.append(_build_step_back(name, array, sources))


def _build_step_back(name: str, array: Array, sources: Sequence[int | tuple[ir.Value, int]]) -> Callable[[Feed], Feed]:
    """Return the step back: the input that the constant replaces."""
    places = [source if isinstance(source, int) else (source[0].name or "", source[1]) for source in sources]

    def step_back(feed: Feed) -> Feed:
        shape = [place if isinstance(place, int) else feed[place[0]].shape[place[1]] for place in places]
        return {**feed, name: np.full(shape, array.reshape(()), array.dtype)}

    return step_back


def _find_source(draft: Draft, value: ir.Value, axis: str | None, place: str) -> tuple[ir.Value, int]:
    """Return another input that has the axis, and its place there."""
    for other in draft.inputs.values():
        if other is not value and axis and axis in (names := list_axes(other)):
            return other, names.index(axis)
    raise draft.failed(
        place,
        f"input {value.name!r} cannot be a constant: its axis {axis!r} is dynamic",
        why="no other input has an axis of that name, from which its size could be read",
        hint="fix the axis first: `axes: {NAME: SIZE}`",
    )


def make_input(draft: Draft, names: Sequence[str], place: str) -> None:
    """Turn weights and other constants into inputs."""
    graph, constants = draft.model.graph, dict(_iter_constants(draft))
    require_known(place, names, constants)
    for name in names:
        value, tensor = constants[name]
        array = tensor.numpy()
        public = ir.val(name, tensor.dtype, array.shape)
        if producer := value.producer():
            value.name = make_unique(f"{name}_inner", draft.list_names())
            value.replace_all_uses_with(public, replace_graph_outputs=True)
            graph.remove(producer, safe=True)
        else:
            del graph.initializers[name]
            if value in graph.inputs:  # before IR version 4
                graph.inputs.remove(value)
            value.replace_all_uses_with(public, replace_graph_outputs=True)
        graph.inputs.append(public)
        draft.fixed_values[name] = array
        bounds = InputValues(low=float(array.min()), high=float(array.max())) if array.size else InputValues()
        draft.domain = replace(draft.domain, inputs={**draft.domain.inputs, name: bounds})
    draft.steps_back.append(lambda feed: {name: value for name, value in feed.items() if name not in names})


def _iter_constants(draft: Draft) -> Iterator[tuple[str, tuple[ir.Value, ir.TensorProtocol]]]:
    """Yield the weights, and the results of Constant nodes, by name."""
    for value in draft.iter_values():
        tensor = ir.convenience.get_const_tensor(value) if value.graph is draft.model.graph else None
        if tensor is not None and value.name:
            yield value.name, (value, tensor)
