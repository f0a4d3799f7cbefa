"""Inputs of models while they are timed: examples of a dataset, or values made up from the signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages._graph.feeds import Input, cases, symbols
from orun.stages._graph.input_domain import Declarations, declared
from orun.stages._graph.io import input_names
from orun.stages._graph.signature import inputs_of, sizes_of
from orun.stages.contract import Context
from orun.stages.datasets import load_dataset
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.measure.dataset import Dataset
    from orun.stages._graph.input_domain import InputValues

    Array = NDArray[Any]

Fed = Annotated[
    Examples | Declarations | None,
    Doc(
        "A dataset of inputs (see `measure/accuracy`); made up within the model's input domain when left out. Or what "
        "inputs take instead of what that domain says, by name: `{ids: {high: 99}}`."
    ),
]
Batch = Annotated[int, Doc("Examples in an inference."), Range(low=1)]
Shape = Annotated[
    dict[str, int],
    Doc(
        "Sizes of symbolic axes by their name, or by input and place (`pixels.2`), for made-up inputs; 128 each, or "
        "the nearest size to it that the model's input domain spans."
    ),
]
Bound = Annotated[
    bool, Doc("Bind inputs and outputs to the device beforehand, so that copies are not part of an inference.")
]

DEFAULT_SIZE = 128  # of a dynamic axis that is not the first and has no size given


@dataclass(frozen=True)
class Sizes:
    """Sizes of the dynamic axes: `batch` of those that come first in an input, `axes` of others by their names."""

    batch: int = 1
    axes: Mapping[str, int] = field(default_factory=dict)


def timed_feeds(context: Context, given: Examples | Declarations | None, sizes: Sizes) -> dict[str, dict[str, Array]]:
    """Return what each connected model is fed, by its role, as the parameter `inputs` of the stage says."""
    models = {role: context.model(role) for role in context.inputs}
    if given is None or isinstance(given, dict):
        return feeds(models, sizes, context.seed, None, declared(given or {}))
    return feeds(models, sizes, context.seed, load_dataset(context, given))


def feeds(
    models: Mapping[str, Path],
    sizes: Sizes,
    seed: int,
    dataset: Dataset | None,
    over: Mapping[str, InputValues] | None = None,
) -> dict[str, dict[str, Array]]:
    """What each model is fed, by the model's name: the same arrays where inputs have the same name.

    Args:
        models: path of each model's proto; the first decides what the others share.
        sizes: of dynamic axes.
        seed: of the values that are made up.
        dataset: its first examples are fed, `sizes.batch` of them; values are made up when None.
        over: values of made-up inputs that go before those of a model's domain.

    Raises:
        UsageError: when `sizes` names an axis that a model does not have, or the dataset lacks an input.
    """
    import onnx

    shared: dict[str, Array] = {}
    fed: dict[str, dict[str, Array]] = {}
    graphs = {name: onnx.load(path, load_external_data=False) for name, path in models.items()}
    require_known("inputs", over or {}, [name for model in graphs.values() for name in input_names(model)])
    for name, model in graphs.items():
        inputs = inputs_of(model, over)
        own = _take(inputs, dataset, sizes.batch) if dataset else _make_up(inputs, sizes, sizes_of(model), seed)
        fed[name] = {key: shared.setdefault(key, array) for key, array in own.items()}
    return fed


def _take(inputs: tuple[Input, ...], dataset: Dataset, batch: int) -> dict[str, Array]:
    from orun.measure.dataset import batches
    from orun.stages._graph.fitting import require_fitting

    for item in inputs:
        if item.name not in dataset.inputs:
            why = f"it has {', '.join(dataset.inputs)}"
            raise UsageError(f"the dataset has no values for input {item.name!r}", why=why)
    most = 0
    for given in batches({item.name: dataset.inputs[item.name] for item in inputs}, batch):
        most = max(most, len(given.examples))
        if most == batch:
            require_fitting("the dataset", inputs, given.feed)
            return dict(given.feed)
    raise UsageError(
        f"`batch` is {batch}, and the dataset has not so many examples of one shape",
        why=f"it has {most}",
        hint="give more examples, or set `batch` to what there is",
    )


def _make_up(
    inputs: tuple[Input, ...], sizes: Sizes, declared: Mapping[str, Sequence[int]], seed: int
) -> dict[str, Array]:
    """Random values within the bounds of each input; masks hide nothing."""
    import numpy as np

    first = {item.shape[0] for item in inputs if item.shape}
    default = {axis: sizes.batch if axis in first else _default_size(declared.get(axis)) for axis in symbols(inputs)}
    feed = next(cases(inputs, {axis: (size,) for axis, size in (default | dict(sizes.axes)).items()}, seed)).feed
    return dict(feed) | {item.name: np.ones_like(feed[item.name]) for item in inputs if item.mask}


def _default_size(declared: Sequence[int] | None) -> int:
    """The size of an axis for which none is given: `DEFAULT_SIZE`, kept within the sizes that the model declares."""
    return min(max(DEFAULT_SIZE, min(declared)), max(declared)) if declared else DEFAULT_SIZE
