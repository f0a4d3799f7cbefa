"""Made-up examples within a model's input domain: seeded, with masks that end early."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages._graph.feeds import Input, assign_sizes, list_axes, make_random_values
from orun.stages._graph.signature import inputs_of, sizes_of

if TYPE_CHECKING:
    from orun.stages._graph.input_domain import InputValues


def make_examples(
    model: Path,
    examples: int,
    dims: Mapping[str, Sequence[int]],
    seed: int,
    over: Mapping[str, InputValues] | None = None,
) -> Dataset:
    """Return random inputs without labels.

    Args:
        model: path of the proto whose inputs are made up.
        examples: number of examples.
        dims: sizes of dynamic axes that replace those of the model's domain; the examples cycle through them. Sizes of
            the first axis are ignored, because each example has size 1 there.
        seed: seed of the values.
        over: values of inputs that replace those of the model's domain.

    Raises:
        UsageError: when an input is no tensor or has no axis for examples, or `dims` names an unknown axis.
    """
    import numpy as np

    from orun.stages._graph.io import load_graph

    graph = load_graph(model)
    inputs, dims = inputs_of(graph, over), {**sizes_of(graph), **dims}
    if not inputs:
        raise UsageError("the model has no inputs, so no examples can be made up")
    for item in inputs:
        _check(item)
    single = [_single(item, {item.shape[0] for item in inputs}) for item in inputs]
    assign_sizes(inputs, dims)  # refuses unknown axes
    axes = list_axes(single)
    sizes = assign_sizes(single, {axis: values for axis, values in dims.items() if axis in axes})
    feeds = [
        make_random_values(single, sizes[number % len(sizes)], "right-padded", np.random.default_rng([seed, number]))
        for number in range(examples)
    ]
    return Dataset({item.name: [feed[item.name][0] for feed in feeds] for item in inputs})


def _single(item: Input, examples: Collection[int | str]) -> Input:
    """Return the input for a single example: the axis of examples has size 1 wherever it occurs."""
    shape = (
        1 if place == 0 or (axis in examples and isinstance(axis, str)) else axis
        for place, axis in enumerate(item.shape)
    )
    return Input(item.name, item.dtype, tuple(shape), item.low, item.high, mask=item.mask)


def _check(item: Input) -> None:
    if not item.shape or item.shape[0] == 0 or (isinstance(item.shape[0], int) and item.shape[0] > 1):
        raise UsageError(
            f"examples for input {item.name!r} cannot be made up",
            why=f"its shape is {list(item.shape)}, and the first axis must be that of the examples",
            hint="give a dataset: `file.py:function` or a file",
        )
