"""Made-up examples within a model's input domain: seeded, with masks that end early."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.dynamic_axes import is_unbatched, list_batch_axes
from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages._graph.feeds import Input, assign_sizes, list_axes, make_random_values
from orun.stages._graph.signature import build_inputs, find_sizes

if TYPE_CHECKING:
    from orun.stages._graph.input_domain import InputValues


def make_examples(
    model: Path,
    examples: int,
    dims: Mapping[str, Sequence[int]],
    seed: int,
    over: Mapping[str, InputValues] | None = None,
) -> Dataset:
    """Return random inputs without labels. An input without an axis for examples has all its axes in each of them.

    Args:
        model: path of the proto whose inputs are made up.
        examples: number of examples.
        dims: sizes of dynamic axes that replace those of the model's domain; the examples cycle through them. Sizes of
            the first axis are ignored, because each example has size 1 there.
        seed: seed of the values.
        over: values of inputs that replace those of the model's domain.

    Raises:
        UsageError: when there are no inputs, an input is no tensor, or `dims` names an unknown axis.
    """
    import numpy as np

    from orun.stages._graph.io import load_graph

    graph = load_graph(model)
    inputs, dims = build_inputs(graph, over), {**find_sizes(graph), **dims}
    if not inputs:
        raise UsageError("the model has no inputs, so no examples can be made up")
    batch = list_batch_axes(item.shape for item in inputs)
    single = [_shrink_batch(item, batch) for item in inputs]
    assign_sizes(inputs, dims)  # refuses unknown axes
    axes = list_axes(single)
    sizes = assign_sizes(single, {axis: values for axis, values in dims.items() if axis in axes})
    feeds = [
        make_random_values(single, sizes[number % len(sizes)], np.random.default_rng([seed, number]))
        for number in range(examples)
    ]
    return Dataset(
        {
            item.name: [feed[item.name] if is_unbatched(item.shape) else feed[item.name][0] for feed in feeds]
            for item in inputs
        }
    )


def _shrink_batch(item: Input, batch: Collection[int | str]) -> Input:
    """Return the input for a single example: a dynamic axis of the batch has size 1 wherever it occurs."""
    shape = tuple(1 if isinstance(axis, str) and axis in batch else axis for axis in item.shape)
    return replace(item, shape=shape)
