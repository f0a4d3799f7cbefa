"""Removal of the weights of smallest magnitude: as zeros, or as whole channels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from orun.measure.dataset import Array
from orun.stages.optimize._pruning.channels import Layer, Stored, Stuck, follow, list_weights, read_stored


@dataclass(frozen=True)
class Choice:
    """Choice of the weights to remove.

    Attributes:
        share: share of the weights or channels.
        together: whether all layers are ranked together, or each by itself.
        op_types: operators of the layers that may lose weights.
        exclude: names of nodes that keep their weights.
    """

    share: float
    together: bool
    op_types: Collection[str]
    exclude: Collection[str]

    def iter_layers(self, model: ModelProto, kept: Stored) -> Iterator[tuple[Any, str, int]]:
        """Yield the layers that may lose weights: node, name of the weights, axis of the channels."""
        spared = {name for node, name, _ in list_weights(model, kept) if node.name in self.exclude}
        for node, name, axis in list_weights(model, kept):
            if name not in spared and node.op_type in self.op_types:
                yield node, name, axis


def zero(model: ModelProto, choice: Choice) -> int:
    """Set the weights of least magnitude to zero, in place; return the number of tensors to choose from.

    Among equal magnitudes, the first is removed first.
    """
    kept = read_stored(model)
    weight_names = dict.fromkeys(name for _, name, _ in choice.iter_layers(model, kept))
    names = [name for name in weight_names if kept.arrays[name].size]
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    ranks = (np.abs(kept.arrays[name]).ravel() for name in names)
    for name, gone in zip(names, _iter_least(ranks, choice), strict=True):  # one at a time, as they may be large
        array = np.array(kept.arrays[name])
        array.reshape(-1)[gone] = 0
        tensors[name].CopyFrom(numpy_helper.from_array(array, name))
    return len(names)


def shrink(model: ModelProto, choice: Choice, tell: Callable[[str], None]) -> list[Layer]:
    """Remove the channels whose weights have the least mean magnitude, and all that depends on them, in place.

    The order is that of L1 norms: Li et al., "Pruning Filters for Efficient ConvNets", 2017. The nodes of the model are
    sorted. `tell` is called with a message for each layer that keeps its channels. The layers that lost channels are
    returned.
    """
    kept = read_stored(model)
    layers = []
    for node, name, axis in choice.iter_layers(model, kept):
        stays = f"{node.op_type} {node.name or node.output[0]!r} keeps its channels"
        try:
            layer = follow(model, kept, node, name, axis)
        except Stuck as why:
            tell(f"{stays}: {why}")
            continue
        if excluded := [later.name for later in layer.depthwise if later.name in choice.exclude]:
            tell(f"{stays}: they reach Conv {excluded[0]!r}, which is in `exclude`")
        else:
            layers.append(layer)
    ranks = [_average_channels(kept.arrays[layer.weight], layer.axis) for layer in layers]
    arrays: dict[str, Array] = {}
    changed = []
    for layer, gone in zip(layers, _iter_least(ranks, choice, spare=1), strict=True):
        if len(gone):
            _cut(layer, gone, kept.arrays, arrays)
            changed.append(layer)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    if changed:
        del model.graph.value_info[:]  # it holds the former shapes
    return changed


def _average_channels(array: Array, axis: int) -> Array:
    other_axes = tuple(other for other in range(array.ndim) if other != axis)
    means: Array = np.abs(array.astype(np.float64)).mean(axis=other_axes)
    return means


def _iter_least(ranks: Iterable[Array], choice: Choice, spare: int = 0) -> Iterator[Array]:
    """Yield the indices of the least values of each array, so that at least `spare` values are left."""
    counted: Iterable[tuple[Array, int]]
    if choice.together:
        ranks = list(ranks)
        counted = zip(ranks, _share_counts(ranks, choice.share), strict=True)
    else:
        counted = ((rank, int(choice.share * rank.size)) for rank in ranks)
    for rank, count in counted:
        yield _find_least(rank, min(count, rank.size - spare))


def _share_counts(ranks: Sequence[Array], share: float) -> Iterator[int]:
    """Yield how many values of each array are among the least of all arrays; among equals, the first count."""
    every = np.concatenate(ranks) if ranks else np.zeros(0)
    left = int(share * every.size)
    if not left:
        yield from (0 for _ in ranks)
        return
    every.partition(left - 1)
    bound = every[left - 1]
    below = [int(np.count_nonzero(rank < bound)) for rank in ranks]
    left -= sum(below)
    for rank, count in zip(ranks, below, strict=True):
        equal = min(int(np.count_nonzero(rank == bound)), left)
        left -= equal
        yield count + equal


def _find_least(rank: Array, count: int) -> Array:
    """Return the indices of the `count` least values, in order; among equals, the first."""
    if count <= 0:
        return np.zeros(0, np.int64)
    bound = np.partition(rank, count - 1)[count - 1]
    below = np.flatnonzero(rank < bound)
    equal = np.flatnonzero(rank == bound)[: count - len(below)]
    return np.sort(np.concatenate([below, equal]))


def _cut(layer: Layer, gone: Array, before: Mapping[str, Array], after: dict[str, Array]) -> None:
    for cut in layer.cuts:
        places = (gone[:, None] * cut.repeat + np.arange(cut.repeat)).ravel()
        after[cut.name] = np.delete(after.get(cut.name, before[cut.name]), places, cut.axis)
    for node in layer.depthwise:
        next(item for item in node.attribute if item.name == "group").i -= len(gone)
