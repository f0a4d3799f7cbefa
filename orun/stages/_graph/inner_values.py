"""Values inside a model when it runs on typical inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from orun.measure.dataset import Dataset, require_batch_first
from orun.stages._graph.feeds import take_example
from orun.stages._graph.fitting import require_fitting
from orun.stages._graph.io import list_input_names, save
from orun.stages._graph.sessions import Feed, open_model
from orun.stages._graph.signature import build_inputs, count_axes


def iter_rows(model: ModelProto, names: Sequence[str], dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield `iter_values` as `[rows, channels]`; the channels are the last axis."""
    for values in iter_values(model, names, dataset):
        yield {name: value.reshape(-1, value.shape[-1]) for name, value in values.items()}


def iter_values(model: ModelProto, names: Sequence[str], dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield values of a model for each example.

    The names are of inputs, or of inner values whose types are declared or can be inferred. The model is whole in
    memory.

    Raises:
        UsageError: if an example does not fit the model.
    """
    inputs = [item for item in build_inputs(model) if item.name in dataset.inputs]
    require_batch_first(dataset.inputs, {item.name: item.shape for item in inputs})
    ranks = count_axes(model)
    feeds = [take_example(dataset.inputs, number, ranks) for number in range(len(dataset))]
    for feed in feeds:
        require_fitting("the dataset", inputs, feed)
    return iter_values_of_feeds(model, names, feeds)


def iter_values_of_feeds(
    model: ModelProto, names: Sequence[str], feeds: Iterable[Feed]
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield values of a model for each of several inputs, as `iter_values` does."""
    inputs = list_input_names(model)
    inner = [name for name in names if name not in inputs]
    declared = {value.name for value in model.graph.output}
    copy = type(model)()
    copy.CopyFrom(model)
    copy.graph.output.extend(ValueInfoProto(name=name) for name in inner if name not in declared)
    with TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "inner_values.onnx")
        save(copy, path, external=True)
        run = open_model(path, inner)
    for feed in feeds:
        values = dict(zip(inner, run(feed), strict=True)) if inner else {}
        yield {name: values[name] if name in values else feed[name] for name in names}
