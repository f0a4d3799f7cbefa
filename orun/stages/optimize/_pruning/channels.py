"""Channels that a model can lose, with all weights that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from orun.measure.dataset import Array
from orun.stages._graph.domains import STANDARD
from orun.stages._graph.io import iter_graphs
from orun.stages._graph.nodes import attribute

# Elementwise operators.
ELEMENTWISE = frozenset({
    "Abs", "Add", "Cast", "Ceil", "Celu", "Clip", "Div", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "Relu", "Selu", "Sigmoid",
    "Sign", "Softplus", "Softsign", "Sqrt", "Sub", "Swish", "Tanh", "ThresholdedRelu",
})  # fmt: skip
POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"})


class Stuck(Exception):
    """Reason why a layer keeps its channels."""


@dataclass(frozen=True)
class Place:
    """Position of the channels in a value.

    Attributes:
        back: their axis, counted from the last axis, which is 1.
        repeat: number of neighbouring values for each channel; 0 when not known yet.
        second: whether it is also the second axis, where normalizations and pools expect channels.
    """

    back: int
    repeat: int = 1
    second: bool = True


@dataclass(frozen=True)
class Cut:
    """Removal from a stored tensor along an axis: `repeat` neighbouring entries for each channel."""

    name: str
    axis: int
    repeat: int = 1


@dataclass
class Layer:
    """A layer that can lose output channels.

    Attributes:
        node: its node.
        weight: name of its weights.
        axis: axis of the channels in its weights.
        channels: number of its channels.
        cuts: every stored tensor that loses entries with the channels.
        depthwise: later convolutions with a group for each channel.
    """

    node: NodeProto
    weight: str
    axis: int
    channels: int
    cuts: list[Cut] = field(default_factory=list)
    depthwise: list[NodeProto] = field(default_factory=list)


@dataclass(frozen=True)
class Stored:
    """Stored tensors of a model.

    Attributes:
        arrays: the tensors by name.
        uses: number of reads of each name in the main graph.
        fixed: names that must stay: inputs and outputs of the model, and values that nested graphs read.
    """

    arrays: Mapping[str, Array]
    uses: Mapping[str, int]
    fixed: frozenset[str]


class Arrays(Mapping[str, "Array"]):
    """Tensors as arrays, converted on access: all at once would take the memory of a second model."""

    def __init__(self, tensors: Iterable[TensorProto]) -> None:
        self._tensors = {tensor.name: tensor for tensor in tensors}

    def __getitem__(self, name: str) -> Array:
        return numpy_helper.to_array(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def read_stored(model: ModelProto) -> Stored:
    """Return the stored tensors of a model, and the number of their readers."""
    uses: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    _, *nested = iter_graphs(model)
    fixed = {value.name for value in (*model.graph.input, *model.graph.output)}
    fixed |= {name for graph in nested for node in graph.node for name in node.input}
    return Stored(Arrays(model.graph.initializer), uses, frozenset(fixed))


def computes_weights(model: ModelProto) -> bool:
    """Return whether a node computes a value from stored tensors alone, which `optimize/simplify` would store."""
    names = {tensor.name for tensor in model.graph.initializer}
    return any(
        node.op_type != "DequantizeLinear" and any(node.input) and all(name in names for name in node.input if name)
        for node in model.graph.node
    )


def list_weights(model: ModelProto, kept: Stored) -> Iterator[tuple[NodeProto, str, int]]:
    """Yield every Conv, Gemm and MatMul with stored weights: node, name of the weights, axis of the output channels."""
    for node in model.graph.node:
        if node.domain in STANDARD and node.op_type in ("Conv", "Gemm", "MatMul"):
            array = kept.arrays.get(node.input[1])
            if array is not None and array.dtype.kind == "f" and array.ndim > 1:
                if node.op_type == "MatMul":
                    yield node, node.input[1], array.ndim - 1
                else:
                    by_rows = node.op_type == "Conv" or attribute(node, "transB", 0)
                    yield node, node.input[1], 0 if by_rows else 1


def follow(model: ModelProto, kept: Stored, node: NodeProto, weight: str, axis: int) -> Layer:
    """Follow the output channels of a layer up to the next layers; return all that they take with them.

    The nodes of the model are sorted; node, weight and axis are as `list_weights` yields them.

    Raises:
        Stuck: when the channels reach a node or tensor that cannot lose them.
    """
    array = kept.arrays[weight]
    layer = Layer(node, weight, axis, array.shape[axis])
    if node.op_type == "Conv" and attribute(node, "group", 1) != 1:
        raise Stuck("its groups would no longer be of one size")
    if array.ndim > 2 and node.op_type == "MatMul":  # noqa: PLR2004 - a batch of matrices
        raise Stuck("its weights are a batch of matrices")
    _cut(layer, kept, weight, axis)
    if len(node.input) > 2 and node.input[2]:  # noqa: PLR2004 - the bias
        _cut_constant(layer, kept, node.input[2], Place(1))
    back = array.ndim - 1 if node.op_type == "Conv" else 1
    places = {node.output[0]: Place(back, second=node.op_type != "MatMul")}
    _require_free(kept, node.output[0])
    for reader in model.graph.node:
        if any(name in places for name in reader.input):
            if any(kept.uses.get(name) or name in kept.fixed for name in reader.output[1:]):
                raise Stuck(f"they reach {reader.op_type} {reader.name!r}, of which more than one output is read")
            if place_after := _pass(layer, kept, reader, places):
                _require_free(kept, reader.output[0])
                places[reader.output[0]] = place_after
    return layer


def _require_free(kept: Stored, value: str) -> None:
    if value in kept.fixed:
        raise Stuck(f"{value!r} is an output of the model, or read inside of a node")


def _cut(layer: Layer, kept: Stored, name: str, axis: int, repeat: int = 1) -> None:
    if kept.uses.get(name) != 1 or name in kept.fixed:
        raise Stuck(f"{name!r} is read in several places, or an input of the model")
    layer.cuts.append(Cut(name, axis, repeat))


def _cut_constant(layer: Layer, kept: Stored, name: str, place: Place) -> None:
    """Cut the stored operand of an elementwise operator, unless it is broadcast along the channels."""
    array = kept.arrays.get(name)
    if array is None:
        raise Stuck(f"{name!r} is neither stored nor of the same channels")
    if place.second and array.ndim > place.back + 1:
        raise Stuck(f"{name!r} has more axes than they")
    if array.ndim >= place.back and array.shape[-place.back] != 1:
        axis = array.ndim - place.back
        repeat, left = divmod(array.shape[axis], layer.channels)
        if left or place.repeat not in (0, repeat):
            raise Stuck(f"{name!r} has {array.shape[axis]} values for {layer.channels} channels")
        _cut(layer, kept, name, axis, repeat)


def _pass(layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place | None:
    """Return the place of the channels after a node; None when the node is a layer that consumes them."""
    handle = HANDLERS.get(node.op_type) if node.domain in STANDARD else None
    if handle is None:
        raise Stuck(f"they reach {node.op_type} {node.name!r}")
    return handle(layer, kept, node, places)


def _follow_first(node: NodeProto, places: Mapping[str, Place]) -> Place:
    if node.input[0] not in places or any(name in places for name in node.input[1:]):
        raise Stuck(f"they reach {node.op_type} {node.name!r} as an operand that is no input of a layer")
    return places[node.input[0]]


def _follow_elementwise(layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place:
    found_places = {places[name] for name in node.input if name in places}
    if len(found_places) != 1:
        raise Stuck(f"they lie differently in the operands of {node.op_type} {node.name!r}")
    (place,) = found_places
    for name in node.input:
        if name and name not in places:
            _cut_constant(layer, kept, name, place)
    return place


def _follow_pool(_layer: Layer, _kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place:
    place = _follow_first(node, places)
    if place.back < 2:  # noqa: PLR2004 - there must be an axis to pool over
        raise Stuck(f"they lie along an axis over which {node.op_type} {node.name!r} pools")
    return place


def _normalize(layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place:
    place = _follow_first(node, places)
    if not place.second:
        raise Stuck(f"they are not the second axis, by which {node.op_type} {node.name!r} goes")
    for name in node.input[1:]:
        _cut_constant(layer, kept, name, Place(1, place.repeat))
    return place


def _follow_flatten(_layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place:
    """Return the place after a Flatten. Each channel spans several neighbours; the reader's weights say how many."""
    place = _follow_first(node, places)
    readers = kept.uses.get(node.output[0], 0)
    if attribute(node, "axis", 1) != 1 or not place.second or place.repeat != 1 or not readers:
        raise Stuck(f"{node.op_type} {node.name!r} mixes them")
    return place if place.back == 1 else Place(1, 0)


def _take(layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> None:
    """Cut the rows of a matrix that the channels are multiplied by, of a Gemm or MatMul."""
    if attribute(node, "transA", 0):
        raise Stuck(f"they reach Gemm {node.name!r} turned")
    axis = 1 if attribute(node, "transB", 0) else 0
    place = _follow_first(node, places)
    array = kept.arrays.get(node.input[1])
    if array is None or array.ndim != 2 or place.back != 1:  # noqa: PLR2004 - a matrix
        raise Stuck(f"they reach {node.op_type} {node.name!r}, whose weights are no stored matrix")
    repeat, left = divmod(array.shape[axis], layer.channels)
    if left or place.repeat not in (0, repeat):
        raise Stuck(f"{node.op_type} {node.name!r} takes {array.shape[axis]} values of {layer.channels} channels")
    _cut(layer, kept, node.input[1], axis, repeat)


def _follow_conv(layer: Layer, kept: Stored, node: NodeProto, places: Mapping[str, Place]) -> Place | None:
    place = _follow_first(node, places)
    array = kept.arrays.get(node.input[1])
    groups = attribute(node, "group", 1)
    if array is None or place.back != array.ndim - 1:
        raise Stuck(f"they reach Conv {node.name!r}, whose weights are not stored")
    if groups == 1:
        _cut(layer, kept, node.input[1], 1)
        return None
    if groups != layer.channels or array.shape[0] != groups:
        raise Stuck(f"they reach Conv {node.name!r} of {groups} groups")
    for name in node.input[1:]:
        _cut(layer, kept, name, 0)
    layer.depthwise.append(node)
    return place


HANDLERS: Mapping[str, Callable[[Layer, Stored, NodeProto, Mapping[str, Place]], Place | None]] = {
    **dict.fromkeys(ELEMENTWISE, _follow_elementwise),
    **dict.fromkeys(POOLS, _follow_pool),
    "BatchNormalization": _normalize,
    "Conv": _follow_conv,
    "Flatten": _follow_flatten,
    "Gemm": _take,
    "MatMul": _take,
}
