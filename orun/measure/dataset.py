"""Dataset: examples for a model with their labels, as a `dataset: file.py:function` returns them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.core.dynamic_axes import find_batch_index, is_unbatched
from orun.errors import UsageError

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Array | Sequence[Array]
"""One array `[n, ...]`, or n arrays of any shapes."""
LABEL_COLUMNS = ("labels", "label", "target", "class", "y")  # usual names of a column of labels
BATCHES = (  # of a CalibrationDataReader of ONNX Runtime
    "join its batches: `batches = list(iter(reader.get_next, None))`, then "
    "`orun.Dataset({name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]})`"
)
GOLDEN = (5**0.5 - 1) / 2  # golden ratio


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples for `measure/accuracy` and for calibration.

    Your function builds and returns it:

        def digits() -> orun.Dataset:
            images, labels = load()                      # [n, 1, 8, 8] float32, [n] integers
            return orun.Dataset({"image": images}, labels)

    Attributes:
        inputs: for each input of the model one array `[n, ...]`, or a list of n arrays without batch axis if shapes
            differ between examples (texts of different lengths). Inputs that a model does not have are not fed to it.
            An input without an axis for a batch in front (a scalar, a fixed first axis above 1, or `[time, batch, 3]`)
            is fed an example at a time.
        labels: the right result of each example, `[n, ...]`: its class for `accuracy`; its text for `wer`; for `map` a
            dict, `{"xyxy": boxes, "classes": numbers}`; with `candidates`, the index of the right candidate. A custom
            metric may give them any meaning.
        candidates: for retrieval, the documents among which each example must find its own: like `inputs`, with a
            length of their own. They are fed through the same model.
        fields: further facts on each example, by name, `[n]`: the language of a text, the camera of a picture.
            `measure/accuracy` can measure each of their values as a slice; `label` stands for the labels.

    Raises:
        UsageError: if the parts do not fit together.
    """

    inputs: Mapping[str, Values]
    labels: Array | None = None
    candidates: Mapping[str, Values] | None = None
    fields: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _normalize("inputs", self.inputs))
        if self.candidates is not None:
            object.__setattr__(self, "candidates", _normalize("candidates", self.candidates))
        if self.labels is not None:
            hint = "make an object of each row: labels = np.empty(len(rows), object); labels[:] = rows"
            labels = _as_array("the labels of a dataset", self.labels, hint)
            _check_labels(self, labels)
            object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "fields", _check_fields(self))

    def __len__(self) -> int:
        """Number of examples; candidates are not counted."""
        return count(self.inputs)

    def spread(self, examples: int) -> Dataset:
        """Return so many examples, spread evenly over the data, or all if there are fewer; with every candidate."""
        return self.choose(spread_indices(len(self), examples))

    def choose(self, examples: NDArray[np.intp]) -> Dataset:
        """Return the examples at these indices, in this order and with repetitions; with every candidate."""
        inputs = {name: choose(values, examples) for name, values in self.inputs.items()}
        labels = None if self.labels is None else self.labels[examples]
        fields = {name: values[examples] for name, values in self.fields.items()}
        return dataclasses.replace(self, inputs=inputs, labels=labels, fields=fields)


def require_dataset(returned: object, function: str) -> Dataset:
    """Return what a function of the user has returned.

    Raises:
        UsageError: if that is no dataset.
    """
    if not isinstance(returned, Dataset):
        raise UsageError(
            f"{function} must return an orun.Dataset, not a {type(returned).__name__}",
            hint=BATCHES if hasattr(returned, "get_next") else "wrap the arrays: orun.Dataset({'input name': array})",
        )
    return returned


def spread_indices(total: int, examples: int) -> NDArray[np.intp]:
    """Return the indices of so many examples out of `total` in ascending order, or of all if there are fewer.

    The data are cut into equal parts, and each part yields an example: data in order of classes yield every class. The
    place within a part varies, so that data in which classes alternate yield every class, too.
    """
    examples = min(examples, total)
    bounds = np.arange(examples + 1) * total // examples
    places = np.arange(examples) * GOLDEN % 1  # from 0 to 1, as even as can be for any number of examples
    return bounds[:-1] + (places * np.diff(bounds)).astype(np.intp)


def choose(values: Values, examples: NDArray[np.intp]) -> Values:
    """Return the values at these indices, in this order."""
    return values[examples] if isinstance(values, np.ndarray) else [values[index] for index in examples]


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one shape.

    Attributes:
        examples: their indices, `[b]`.
        feed: for each input their values, `[b, ...]`; without the first axis where the model has no batch.
        is_unbatched: whether there is such an input, so that outputs may have no axis for a batch either.
    """

    examples: NDArray[np.intp]
    feed: Mapping[str, Array]
    is_unbatched: bool = False


def iter_batches(inputs: Mapping[str, Values], size: int, unbatched: Collection[str] = ()) -> Iterator[Batch]:
    """Yield every example once, in batches of equal shapes of at most `size` examples.

    Nothing is padded: a model's result for an example must not depend on the lengths of other examples.

    Args:
        inputs: values of the dataset by input.
        size: most examples in a batch.
        unbatched: inputs without an axis for a batch; if there are any, each batch is a single example.
    """
    size = 1 if unbatched else size
    return (make_batch(inputs, examples, unbatched) for examples in group(inputs, size, range(count(inputs))))


def list_unbatched(inputs: Mapping[str, Values], shapes: Mapping[str, Sequence[int | str | None]]) -> list[str]:
    """Return the inputs whose examples are fed as they are, because the model has no axis for a batch there.

    Args:
        inputs: values of the dataset by input.
        shapes: shape of each input of the model.

    Raises:
        UsageError: if examples would be joined along another axis than that of the batch.
    """
    require_batch_first(inputs, shapes)
    return [name for name, axes in shapes.items() if is_unbatched(axes) and np.ndim(inputs[name][0]) == len(axes)]


def require_batch_first(inputs: Mapping[str, Values], shapes: Mapping[str, Sequence[int | str | None]]) -> None:
    """Refuse examples without a batch axis for an input whose batch is not its first axis: they are joined along that.

    Args:
        inputs: values of the dataset by input.
        shapes: shape of each input of the model.

    Raises:
        UsageError: for the first such input.
    """
    for name, axes in shapes.items():
        place = find_batch_index(axes)
        if place and name in inputs and np.ndim(inputs[name][0]) < len(axes):
            raise UsageError(
                f"input {name!r} of the model has its batch on axis {place}: {list(axes)}",
                why="examples are joined along the first axis, which the model would read as another one",
                hint="give each example all axes of the model, with a batch of 1: it is then fed alone",
            )


def group(inputs: Mapping[str, Values], size: int, order: Iterable[int]) -> list[NDArray[np.intp]]:
    """Return the indices in `order`, in groups of equal shapes of at most `size` examples."""
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for index in order:
        groups.setdefault(tuple(np.shape(values[index]) for values in inputs.values()), []).append(index)
    return [
        np.array(groups[shapes][start : start + size])
        for shapes in sorted(groups)
        for start in range(0, len(groups[shapes]), size)
    ]


def make_batch(inputs: Mapping[str, Values], examples: NDArray[np.intp], unbatched: Collection[str] = ()) -> Batch:
    """Return the batch of examples at these indices, which have equal shapes; `unbatched` as for `iter_batches`."""
    feed = {name: _stack(values, examples) for name, values in inputs.items()}
    # The ellipsis keeps scalars arrays: sessions refuse NumPy's scalars.
    feed = {name: array[0, ...] if name in unbatched else array for name, array in feed.items()}
    return Batch(examples, feed, is_unbatched=bool(unbatched))


def count(inputs: Mapping[str, Values]) -> int:
    """Return the number of examples in a mapping of inputs."""
    return len(next(iter(inputs.values())))


def suggest_type(name: str, dtype: str) -> str:
    """Return a hint on how to convert an input to another type."""
    return f"in the dataset, {name}: values.astype(np.{dtype}); of files, `types: {{{name}: {dtype}}}`"


def _stack(values: Values, indices: NDArray[np.intp]) -> Array:
    if isinstance(values, np.ndarray):
        return values[indices]
    return np.stack([values[index] for index in indices])


def _normalize(part: str, values: Mapping[str, Values]) -> dict[str, Values]:
    if not isinstance(values, Mapping) or not values:
        raise UsageError(
            f"the {part} of a dataset must map the names of a model's inputs to arrays",
            why=f"got {values!r:.80}",
        )
    arrays = {str(name): _as_arrays(part, name, value) for name, value in values.items()}
    lengths = {name: len(value) for name, value in arrays.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UsageError(f"the {part} of a dataset have different numbers of examples", why=listed)
    if not next(iter(lengths.values())):
        raise UsageError(f"the {part} of a dataset are empty")
    return arrays


def _as_arrays(part: str, name: str, values: Values) -> Values:
    if isinstance(values, np.ndarray) and values.ndim:
        return values
    if not isinstance(values, Sequence):
        method = next((name for name in ("to_numpy", "numpy") if hasattr(values, name)), "")  # of pandas, of PyTorch
        raise UsageError(
            f"{part}.{name} of a dataset must be an array or a list of arrays",
            why=f"got a {type(values).__name__}" if method else f"got {values!r:.80}",
            hint=f"convert it: values.{method}()" if method else "",
        )
    hint = "give each example as an array with rows of equal length"
    arrays = [_as_array(f"an example of {part}.{name} of a dataset", value, hint) for value in values]
    arrays = [array.astype(object) if array.dtype.kind == "U" else array for array in arrays]  # texts of any length
    types = sorted({str(array.dtype) for array in arrays})
    if len(types) > 1:
        raise UsageError(f"{part}.{name} of a dataset mixes the types {' and '.join(types)}")
    return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays


def _as_array(subject: str, values: Any, hint: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise UsageError(f"{subject}: its rows have different lengths", why=f"got {values!r:.80}", hint=hint) from error


def _check_fields(dataset: Dataset) -> dict[str, Array]:
    hint = "give one value for each example"
    fields = {
        str(name): _as_array(f"the field {name} of a dataset", values, hint) for name, values in dataset.fields.items()
    }
    for name, values in fields.items():
        if values.shape != (len(dataset),):
            raise UsageError(f"a dataset of {len(dataset)} examples has a field {name} of shape {list(values.shape)}")
    if "label" in fields:
        raise UsageError("a dataset cannot have a field label", why="that name stands for its labels")
    return fields


def _check_labels(dataset: Dataset, labels: Array) -> None:
    if dataset.candidates is not None:
        _check_indices(labels, len(dataset), count(dataset.candidates))
    elif labels.shape[:1] != (len(dataset),):
        raise UsageError(f"a dataset of {len(dataset)} examples has labels of shape {list(labels.shape)}")


def _check_indices(labels: Array, examples: int, candidates: int) -> None:
    if labels.shape != (examples,) or labels.dtype.kind not in "iu":
        raise UsageError(
            "with candidates, the labels of a dataset must be the index of a candidate for each example",
            why=f"they are {labels.dtype} of shape {list(labels.shape)}, for {examples} examples",
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= candidates))
    if wrong.size:
        raise UsageError(
            f"the label of example {wrong[0]} is {labels[wrong[0]]}, and there are {candidates} candidates",
            why=f"{wrong.size} of {examples} labels are not the index of a candidate",
        )
