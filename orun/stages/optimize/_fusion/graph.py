"""Queries on the values of a graph, and a rewriter that puts nodes in place of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from orun.stages._graph.names import make_unique

MICROSOFT = "com.microsoft"  # domain of ONNX Runtime's own operators

Array = NDArray[Any]
Dim = int | str | None  # a size, the name of a dynamic axis, or None when unknown
SHAPE_OF_SOME = 15  # operator set from which Shape has `start` and `end`


def find_dims(value: ir.Value) -> tuple[Dim, ...] | None:
    """Return the sizes of the axes that shape inference found; None if their number is unknown."""
    if value.shape is None:
        return None
    return tuple(axis if isinstance(axis, int) else axis.value for axis in value.shape)


def are_same_shape(first: Sequence[Dim] | None, second: Sequence[Dim] | None) -> bool:
    """Return whether two shapes are equal for inputs of any size."""
    return first is not None and second is not None and None not in first and tuple(first) == tuple(second)


def find_producer(value: ir.Value | None, *operators: str, domain: str = "") -> ir.Node | None:
    """Return the producer of a value if it is of these operators."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.domain == domain and node.op_type in operators else None


def require_input(node: ir.Node, number: int) -> ir.Value:
    """Return an input that the operator always has."""
    value = node.inputs[number]
    if value is None:
        raise ValueError(f"{node.op_type} {node.name} lacks input {number}")
    return value


def find_input(node: ir.Node, number: int) -> ir.Value | None:
    """Return an input that the operator may lack."""
    return node.inputs[number] if number < len(node.inputs) else None


def find_constant(value: ir.Value | None) -> Array | None:
    """Return the array of a value that is an initializer; otherwise None."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def find_number(value: ir.Value | None) -> float | None:
    """Return the only element of a constant."""
    held = find_constant(value)
    return float(held.reshape(-1)[0]) if held is not None and held.size == 1 else None


def cast_scalar(value: float, like: ir.Value) -> Array:
    """Return a scalar of the element type of a value."""
    return np.array(value, _to_numpy_type(like))


def get_lowest(like: ir.Value) -> float:
    """Return the lowest finite number of the element type of a value."""
    return float(ml_dtypes.finfo(_to_numpy_type(like)).min)  # type: ignore[no-untyped-call]  # it has no types


def _to_numpy_type(value: ir.Value) -> np.dtype[Any]:
    return np.dtype(np.float32) if value.dtype is None else value.dtype.numpy()


def read_integers(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """Return an attribute of integers."""
    attribute = node.attributes.get(name)
    return tuple(attribute.as_ints()) if attribute is not None else None


def read_setting(node: ir.Node, name: str, default: float) -> float:
    """Return an attribute that is one number."""
    attribute = node.attributes.get(name)
    return default if attribute is None else float(attribute.value)


def iter_orders(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield the two inputs of a commutative node in both orders."""
    left, right = require_input(node, 0), require_input(node, 1)
    yield left, right
    yield right, left


@dataclass
class Rewriter:
    """Writer of nodes into a graph.

    Attributes:
        model: the model, which is rewritten in place.
        disabled: names of fusions to leave out.
        cache: values that several layers share.
        left: reason why an attention stays in pieces, by the name of its result.
    """

    model: ir.Model
    disabled: Collection[str] = ()
    cache: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.model.graph
        outputs = {value.name for node in graph.all_nodes() for value in node.outputs}
        self._names = {*outputs, *graph.initializers, *(value.name for value in graph.inputs)}

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return self.graph.opset_imports.get("", 1)

    @property
    def graph(self) -> ir.Graph:
        """Main graph; nested graphs are not rewritten."""
        return self.model.graph

    def list_nodes(self, *operators: str, domain: str = "") -> list[ir.Node]:
        """Return the nodes of these operators in the main graph, in its order."""
        return [node for node in self.graph if node.domain == domain and node.op_type in operators]

    def put(
        self,
        before: ir.Node,
        operator: str,
        inputs: Sequence[ir.Value | None],
        name: str,
        shape: Sequence[Dim] | None,
        *,
        like: ir.Value | None = None,
        domain: str = "",
        attributes: dict[str, Any] | None = None,
    ) -> ir.Value:
        """Insert a node before another and return its only output, whose name is made unique.

        The shape is None when unknown. The output has the element type of `like`, or else of the first input.
        """
        node = ir.Node(
            domain, operator, list(inputs), ir.convenience.convert_attributes(attributes or {}), num_outputs=1
        )
        node.name = node.outputs[0].name = self.choose_unused_name(name)
        node.outputs[0].shape = ir.Shape(shape) if shape is not None else None
        node.outputs[0].type = (like if like is not None else require_input(node, 0)).type
        self.graph.insert_before(before, node)
        if domain:
            self.graph.opset_imports.setdefault(domain, 1)
        return node.outputs[0]

    def share(
        self, before: ir.Node, operator: str, inputs: Sequence[ir.Value | None], *name_and_shape: Any, **more: Any
    ) -> ir.Value:
        """Insert a node as `put` does, or return the output of one that computes the same for another layer."""
        key = (operator, *inputs, str(more.get("attributes")))
        if not self._is_known(key):
            self.cache[key] = self.put(before, operator, inputs, *name_and_shape, **more)
        return self.cache[key]

    def name_output(self, output_value: ir.Value, place: int, name: str) -> ir.Value:
        """Name and return a further output of a value's producer."""
        node = output_value.producer()
        if node is None:
            raise ValueError(f"{output_value.name} is made by no node")
        node.resize_outputs(max(len(node.outputs), place + 1))
        for number, output in enumerate(node.outputs):
            output.name = output.name or ("" if number != place else self.choose_unused_name(name))
        return node.outputs[place]

    def hold(self, array: Array, name: str) -> ir.Value:
        """Add an initializer."""
        value = ir.val(self.choose_unused_name(name), const_value=ir.tensor(array))
        self.graph.register_initializer(value)
        return value

    def share_constant(self, array: Array) -> ir.Value:
        """Return an initializer for a small constant, shared by equal ones."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if not self._is_known(key):
            self.cache[key] = self.hold(array, "fusion_constant")
        return self.cache[key]

    def _is_known(self, key: tuple[object, ...]) -> bool:
        return key in self.cache and self.cache[key].graph is not None  # between rules, what nothing reads is removed

    def share_integers(self, *values: int) -> ir.Value:
        """Return an initializer of integers, for axes and shapes."""
        return self.share_constant(np.array(values, np.int64))

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let every reader of a value read another, which gets its name, type and known shape."""
        name = old.name
        old.name = self.choose_unused_name(f"{name}_replaced")
        new.name = name
        new.type = old.type
        new.shape = old.shape if old.shape is not None else new.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)

    def put_size(self, before: ir.Node, value: ir.Value, axis: int) -> ir.Value:
        """Return the size of an axis of a value, as a list of one integer."""
        known = find_dims(value)
        fixed = known[axis] if known is not None else None
        if isinstance(fixed, int):
            return self.share_integers(fixed)
        name = f"{value.name}_size_{axis}"
        if self.opset >= SHAPE_OF_SOME:
            some = {"start": axis, "end": axis + 1}
            return self.put(before, "Shape", [value], name, (1,), like=self.share_integers(1), attributes=some)
        shape = self.put(before, "Shape", [value], f"{name}_of", (len(known or ()),), like=self.share_integers(1))
        return self.put(before, "Gather", [shape, self.share_integers(axis)], name, (1,))

    def choose_unused_name(self, name: str) -> str:
        """Return the name, or a similar one that no value has."""
        return make_unique(name, self._names)
