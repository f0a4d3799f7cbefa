"""Examples to feed to a model, and what is right for them: what a `dataset: file.py:function` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Array | Sequence[Array]
"""One array `[n, ...]`, or n arrays of which each has its own shape."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples for `measure/accuracy` and for calibration.

    A function of yours builds one and returns it:

        def digits() -> orun.Dataset:
            images, labels = load()                      # [n, 1, 8, 8] float32, [n] integers
            return orun.Dataset({"image": images}, labels)

    Attributes:
        inputs: for each input of the model one array `[n, ...]`, or a list of n arrays without the batch axis when
            shapes differ from example to example (texts of different lengths). Inputs that a model does not have are
            not fed to it.
        labels: what is right for each example, `[n, ...]`: its class for `accuracy`; with `candidates`, the index of
            the right candidate. A function of your own may give them any meaning.
        candidates: for retrieval, the documents among which each example has to find its own: like `inputs`, with a
            length of their own; they are fed through the same model.
        fields: what else is known of each example, by name, `[n]`: the language of a text, the camera of a picture.
            `measure/accuracy` can measure by each of their values; the labels are there as `label`.

    Raises:
        UsageError: when the parts do not fit together.
    """

    inputs: Mapping[str, Values]
    labels: Array | None = None
    candidates: Mapping[str, Values] | None = None
    fields: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _normalise("inputs", self.inputs))
        if self.candidates is not None:
            object.__setattr__(self, "candidates", _normalise("candidates", self.candidates))
        if self.labels is not None:
            labels = np.asarray(self.labels)
            _check_labels(self, labels)
            object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "fields", _checked_fields(self))

    def __len__(self) -> int:
        """Number of examples; candidates are not counted."""
        return count(self.inputs)

    def take(self, examples: int) -> Dataset:
        """The first `examples` of it, or all when it has fewer; every candidate stays."""
        return self.choose(np.arange(min(examples, len(self))))

    def choose(self, examples: NDArray[np.intp]) -> Dataset:
        """The examples at these places, in this order, as often as they are named; every candidate stays."""
        inputs = {name: choose(values, examples) for name, values in self.inputs.items()}
        labels = None if self.labels is None else self.labels[examples]
        fields = {name: values[examples] for name, values in self.fields.items()}
        return dataclasses.replace(self, inputs=inputs, labels=labels, fields=fields)


def choose(values: Values, examples: NDArray[np.intp]) -> Values:
    """The values at these places, in this order."""
    return values[examples] if isinstance(values, np.ndarray) else [values[place] for place in examples]


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one shape.

    Attributes:
        examples: their indices, `[b]`.
        feed: for each input their values, `[b, ...]`.
    """

    examples: NDArray[np.intp]
    feed: Mapping[str, Array]


def batches(inputs: Mapping[str, Values], size: int) -> Iterator[Batch]:
    """Every example once, with others of exactly its shape, at most `size` together.

    Nothing is padded: what a model answers for an example must not hang on the lengths of its neighbours.
    """
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for index in range(count(inputs)):
        groups.setdefault(tuple(np.shape(values[index]) for values in inputs.values()), []).append(index)
    for shapes in sorted(groups):
        indices = groups[shapes]
        for start in range(0, len(indices), size):
            chosen = np.array(indices[start : start + size])
            yield Batch(chosen, {name: _gather(values, chosen) for name, values in inputs.items()})


def count(inputs: Mapping[str, Values]) -> int:
    """Number of examples in a mapping of inputs."""
    return len(next(iter(inputs.values())))


def as_type(name: str, dtype: str) -> str:
    """How to give an input values of another type, for messages."""
    return f"in the dataset, {name}: values.astype(np.{dtype}); of a file, `types: {{{name}: {dtype}}}`"


def _gather(values: Values, indices: NDArray[np.intp]) -> Array:
    if isinstance(values, np.ndarray):
        return values[indices]
    return np.stack([values[index] for index in indices])


def _normalise(part: str, values: Mapping[str, Values]) -> dict[str, Values]:
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
        given = next((call for call in ("to_numpy", "numpy") if hasattr(values, call)), "")  # of pandas, of PyTorch
        raise UsageError(
            f"{part}.{name} of a dataset must be an array or a list of arrays",
            why=f"got a {type(values).__name__}" if given else f"got {values!r:.80}",
            hint=f"give it as one: values.{given}()" if given else "",
        )
    arrays = [np.asarray(value) for value in values]
    types = sorted({str(array.dtype) for array in arrays})
    if len(types) > 1:
        raise UsageError(f"{part}.{name} of a dataset mixes the types {' and '.join(types)}")
    return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays


def _checked_fields(dataset: Dataset) -> dict[str, Array]:
    fields = {str(name): np.asarray(values) for name, values in dataset.fields.items()}
    for name, values in fields.items():
        if values.shape != (len(dataset),):
            raise UsageError(f"a dataset of {len(dataset)} examples has a field {name} of shape {list(values.shape)}")
    if "label" in fields:
        raise UsageError("a dataset cannot have a field label", why="that name is for its labels")
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
            why=f"{wrong.size} of {examples} labels are no index of a candidate",
        )
