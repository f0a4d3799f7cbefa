"""Inputs of timed models: examples of a dataset, or values made up from the signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orun.core.dynamic_axes import list_batch_axes
from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages._graph.feeds import Input, list_axes, make_cases
from orun.stages._graph.input_domain import Declarations, to_input_values
from orun.stages._graph.io import list_input_names, load_graph
from orun.stages._graph.signature import build_inputs, find_sizes
from orun.stages.contract import Context
from orun.stages.datasets import load_dataset
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from orun.measure.dataset import Array, Dataset
    from orun.stages._graph.input_domain import InputValues

TimedInputs = Annotated[
    Examples | Declarations | None,
    Doc(
        "A dataset of inputs (see `measure/accuracy`); made up within the model's input domain when left out. Or "
        "values by input that replace those of the domain: `{ids: {high: 99}}`."
    ),
]
Batch = Annotated[
    int, Doc("Examples in an inference. Name a fixed batch of the model, too: throughput counts by it."), Range(low=1)
]
Shape = Annotated[
    dict[str, int],
    Doc(
        "Sizes of symbolic axes by their name, or by input and index (`pixels.2`), for made-up inputs; when left out "
        "128, or the nearest size within the model's input domain."
    ),
]
IoBinding = Annotated[
    bool, Doc("Bind inputs and outputs to the device beforehand, so that the time of an inference has no copies.")
]

FIXED = "leave `batch` out, or export the model with a dynamic first axis"
DEFAULT_SIZE = 128  # of a dynamic axis other than the first


@dataclass(frozen=True)
class Sizes:
    """Sizes of dynamic axes: `batch` for the first axis of an input, `axes` for others by name."""

    batch: int = 1
    axes: Mapping[str, int] = field(default_factory=dict)


def make_timed_feeds(
    context: Context, inputs: Examples | Declarations | None, sizes: Sizes
) -> dict[str, dict[str, Array]]:
    """Return the inputs of each connected model, by its role, for the parameter `inputs` of the stage."""
    models = {role: context.model(role) for role in context.inputs}
    if inputs is None or isinstance(inputs, dict):
        return make_feeds(models, sizes, context.seed, None, to_input_values(inputs or {}))
    return make_feeds(models, sizes, context.seed, load_dataset(context, inputs))


def make_feeds(
    models: Mapping[str, Path],
    sizes: Sizes,
    seed: int,
    dataset: Dataset | None,
    over: Mapping[str, InputValues] | None = None,
) -> dict[str, dict[str, Array]]:
    """Return the inputs of each model by the model's name; inputs of the same name and type share an array.

    Args:
        models: path of each model's proto; the first decides about shared inputs.
        sizes: sizes of dynamic axes.
        seed: seed of made-up values.
        dataset: dataset whose first `sizes.batch` examples are used; None for made-up values.
        over: values of made-up inputs that replace those of a model's domain.

    Raises:
        UsageError: when `sizes` names an unknown axis or a batch that a model does not take, or the dataset lacks an
            input.
    """
    shared: dict[tuple[str, str], Array] = {}
    fed: dict[str, dict[str, Array]] = {}
    graphs = {name: load_graph(path) for name, path in models.items()}
    require_known("inputs", over or {}, [name for model in graphs.values() for name in list_input_names(model)])
    for name, model in graphs.items():
        inputs = build_inputs(model, over)
        if dataset:
            own = _from_dataset(name, inputs, dataset, sizes.batch)
        else:
            _require_batch(name, inputs, sizes.batch)
            own = _make_up(inputs, sizes, find_sizes(model), seed)
        fed[name] = {key: shared.setdefault((key, str(array.dtype)), array) for key, array in own.items()}
    return fed


def count_examples(model: Path, feed: Mapping[str, Array], batch: int) -> int:
    """Return the examples of a feed: `batch` if an input has it, else the size of a dynamic batch axis by `shape`."""
    inputs = build_inputs(load_graph(model))
    sizes = [
        size
        for item in inputs
        for axis, size in zip(item.shape, feed[item.name].shape, strict=True)
        if isinstance(axis, str) and axis in list_batch_axes([item.shape])
    ]
    return sizes[0] if sizes and not (batch > 1 and batch in sizes) else batch


def _require_batch(name: str, inputs: Sequence[Input], batch: int) -> None:
    if batch > 1 and not any(
        isinstance(axis, str) or axis == batch for axis in list_batch_axes(i.shape for i in inputs)
    ):
        raise UsageError(
            f"`batch` is {batch}, and no input of the {name} has such a batch",
            why=", ".join(f"{item.name} is {item.dtype} {list(item.shape)}" for item in inputs),
            hint=FIXED,
        )


def _from_dataset(role: str, inputs: tuple[Input, ...], dataset: Dataset, batch: int) -> dict[str, Array]:
    from orun.measure.dataset import iter_batches, list_unbatched
    from orun.measure.dataset_origin import Origin
    from orun.stages._graph.fitting import require_fitting

    Origin().require_inputs([item.name for item in inputs], dataset.inputs, role)
    most = 0
    values = {item.name: dataset.inputs[item.name] for item in inputs}
    unbatched = list_unbatched(values, {item.name: item.shape for item in inputs})
    if unbatched and batch > 1:
        raise UsageError(
            f"`batch` is {batch}, and input {unbatched[0]!r} of the model has no axis for a batch in front",
            hint="leave `batch` out",
        )
    fixed = {item.name: axis for item in inputs for axis in item.shape[:1] if isinstance(axis, int)}
    for name, size in fixed.items():
        if name not in unbatched and size != batch:
            raise UsageError(
                f"`batch` is {batch}, and input {name!r} of the model takes a batch of {size}",
                hint=FIXED if size == 1 else f"write `batch: {size}`",
            )
    for group in iter_batches(values, batch, unbatched):
        most = max(most, len(group.examples))
        if most == batch:
            require_fitting("the dataset", inputs, group.feed)
            return dict(group.feed)
    raise UsageError(
        f"`batch` is {batch}, and the dataset does not have that many examples of one shape",
        why=f"it has {most}",
        hint="give more examples, or reduce `batch`",
    )


def _make_up(
    inputs: tuple[Input, ...], sizes: Sizes, declared: Mapping[str, Sequence[int]], seed: int
) -> dict[str, Array]:
    """Return random values within the bounds of each input; masks hide nothing."""
    import numpy as np

    batch = list_batch_axes(item.shape for item in inputs)
    default = {
        axis: sizes.batch if axis in batch else _choose_default_size(declared.get(axis)) for axis in list_axes(inputs)
    }
    feed = next(make_cases(inputs, {axis: (size,) for axis, size in (default | dict(sizes.axes)).items()}, seed)).feed
    return dict(feed) | {item.name: np.ones_like(feed[item.name]) for item in inputs if item.fill != "random"}


def _choose_default_size(declared: Sequence[int] | None) -> int:
    """Return the default size of an axis: `DEFAULT_SIZE`, clipped to the sizes that the model declares."""
    return min(max(DEFAULT_SIZE, min(declared)), max(declared)) if declared else DEFAULT_SIZE
