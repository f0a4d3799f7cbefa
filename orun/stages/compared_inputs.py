"""Inputs for the comparison of inner values of two models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orun.stages._data.source import Examples
from orun.stages.contract import Context
from orun.stages.datasets import load_dataset
from orun.stages.name_checks import require_made_up

if TYPE_CHECKING:
    from numpy.typing import NDArray


def choose_feeds(
    context: Context, examples: Examples | None, samples: int, dims: Mapping[str, Sequence[int]]
) -> list[dict[str, NDArray[Any]]]:
    """Return examples spread over a dataset, one for each feed, or made-up examples."""
    from orun.stages._data.synthetic import make_examples
    from orun.stages._graph.feeds import take_example
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import count_axes

    graphs = [load_graph(context.model(port)) for port in context.inputs]
    ranks = {name: rank for graph in graphs for name, rank in count_axes(graph).items()}
    if examples is None:
        dataset = make_examples(context.model(), samples, dims, context.seed)
    else:
        require_made_up(context, dims, "dataset")
        dataset = load_dataset(context, examples, list(ranks)).spread(samples)
    return [take_example(dataset.inputs, number, ranks) for number in range(len(dataset))]
