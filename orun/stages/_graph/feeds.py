"""Inputs to try a model with: seeded, of several sizes of each dynamic axis, random and at the bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from orun.errors import UsageError
from orun.stages._graph import axes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orun.measure.dataset import Values

    Array = NDArray[Any]

Mode = Literal["random", "lowest", "highest"]
Masks = Literal["any", "right-padded"]

SIZES = (1, 2, 7)  # of each dynamic axis, unless the pipeline says which


@dataclass(frozen=True)
class Input:
    """What one input of a model takes.

    Attributes:
        name: of the input.
        dtype: numpy's name of its type.
        shape: each axis: its size, or the name of a dynamic one, or what it follows from (`past + sequence`).
        low, high: bounds of its values, both included; None where there is no bound.
        mask: it holds 0 and 1, and at least one 1 along its last axis, because an attention that sees nothing has no
            right answer.
        padded: it is a mask whose ones stand in front of its zeros.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None
    mask: bool = False
    padded: bool = False


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs for one run of a model.

    Attributes:
        title: what they are, for messages.
        sizes: of the dynamic axes.
        feed: the value of each input.
    """

    title: str
    sizes: Mapping[str, int]
    feed: Mapping[str, Array]


def symbols(inputs: Sequence[Input]) -> tuple[str, ...]:
    """The dynamic axes that have sizes of their own, by name, each once."""
    return axes.free(item.shape for item in inputs)


def assignments(inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Sizes for all dynamic axes together, so that each axis takes each of its sizes and axes differ from one another.

    Those that follow from others have none here.

    Args:
        inputs: of the model.
        sizes: of the axes that do not take `SIZES`.

    Raises:
        UsageError: when `sizes` names an axis that the model does not have, or none, or less than nothing, for one;
            when an input is declared so that no value fits.
    """
    for item in inputs:
        _require_possible(item)
    known = symbols(inputs)
    for unknown in sorted(set(sizes) - set(known)):
        raise UsageError(
            f"the model has no dynamic axis {unknown!r}",
            why=f"its dynamic axes are {', '.join(known)}" if known else "none of its axes is dynamic",
        )
    for axis, chosen in sizes.items():
        if min(chosen, default=-1) < 0:
            told = f"cannot be {min(chosen)}" if chosen else "has no size"
            raise UsageError(f"the dynamic axis {axis!r} {told}", why="sizes are whole numbers from 0 on")
    choices = [tuple(sizes.get(axis, SIZES)) for axis in known]
    rounds = max(map(len, choices), default=1)
    return [
        {
            axis: choice[(turn + place) % len(choice)]
            for place, (axis, choice) in enumerate(zip(known, choices, strict=True))
        }
        for turn in range(rounds)
    ]


def _require_possible(item: Input) -> None:
    wrong = [axis for axis in item.shape if axis == "" or (isinstance(axis, int) and axis < 0)]
    if wrong:
        told = f"of size {wrong[0]}" if wrong[0] else "without a name"
        hint = "give a size from 0 on, or the name of a dynamic axis"
        raise UsageError(f"input {item.name!r} has an axis {told}", hint=hint)
    if item.dtype == "object":
        return
    if item.mask and {item.low, item.high} - {None, 0, 1}:
        raise UsageError(f"input {item.name!r} is a mask of 0 and 1, and is to have other bounds")
    low, high = _bounds(item)
    if low > high:
        bounds = f"{low:g} to {high:g}"
        raise UsageError(f"input {item.name!r} takes values from {bounds}, of which there are none")
    least, most = limits(item.dtype)
    if low < least or high > most:
        beyond = low if low < least else high
        raise UsageError(f"input {item.name!r} is of {item.dtype}, which cannot be {beyond:g}")


def cases(
    inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]], seed: int, masks: Masks = "any"
) -> Iterator[Case]:
    """Random values at every assignment of sizes, then the bounds at the first that has no axis of 1.

    Args:
        inputs: of the model.
        sizes: as for `assignments`.
        seed: of the random values.
        masks: whether a mask hides any position, or only ends early.
    """
    import numpy as np

    turns = assignments(inputs, sizes)
    wide = next((turn for turn in turns if min(turn.values(), default=2) > 1), turns[0])
    plan: list[tuple[dict[str, int], Mode]] = [(turn, "random") for turn in turns]
    plan += [(wide, "lowest"), (wide, "highest")]
    for number, (turn, mode) in enumerate(plan):
        random = np.random.default_rng([seed, number])
        where = ", ".join(f"{axis}={size}" for axis, size in turn.items())
        title = f"{mode} values" + (f" at {where}" if where else "")
        yield Case(title, turn, {item.name: _values(item, turn, mode, masks, random) for item in inputs})


def random_values(
    inputs: Sequence[Input], turn: Mapping[str, int], masks: Masks, random: np.random.Generator
) -> dict[str, Array]:
    """Random values of every input at these sizes of the dynamic axes."""
    return {item.name: _values(item, turn, "random", masks, random) for item in inputs}


def one_example(inputs: Mapping[str, Values], number: int, ranks: Mapping[str, int]) -> dict[str, Array]:
    """An example of a dataset as a model takes it: most have an axis for the batch, which an example has not.

    Args:
        inputs: of the dataset, those that the model has.
        number: of the example.
        ranks: how many axes each input of the model has.
    """
    import numpy as np

    # Of scalars an example is one of numpy's, which sessions refuse.
    found = {name: np.asarray(inputs[name][number]) for name in ranks if name in inputs}
    return {name: value if value.ndim == ranks[name] else value[None] for name, value in found.items()}


def _values(item: Input, turn: Mapping[str, int], mode: Mode, masks: Masks, random: np.random.Generator) -> Array:
    import numpy as np

    shape = tuple(axes.size(axis, turn) if isinstance(axis, str) else axis for axis in item.shape)
    if item.mask:
        return _mask(shape, mode, "right-padded" if item.padded else masks, random).astype(item.dtype)
    if item.dtype == "object":
        return np.full(shape, mode, dtype=object)
    if mode != "random":
        return np.full(shape, _bounds(item)[mode == "highest"], item.dtype)
    if np.dtype(item.dtype).kind in "iub":
        low, high = _bounds(item)
        return random.integers(int(low), int(high), shape, endpoint=True).astype(item.dtype)
    return _floats(item, shape, random).astype(item.dtype)


def _bounds(item: Input) -> tuple[float, float]:
    """The least and the largest value: 0 and 1 where there is no bound, or numbers with a fraction 1 from the other."""
    import numpy as np

    low, high = item.low, item.high
    if np.dtype(item.dtype).kind in "iub":
        return 0 if low is None else math.ceil(low), 1 if high is None else math.floor(high)
    if low is None:
        low = 0.0 if high is None else min(0.0, high - 1.0)
    return low, max(1.0, low + 1.0) if high is None else high


def limits(dtype: str) -> tuple[float, float]:
    """Return the least and the largest finite value of a type."""
    import numpy as np

    kind = np.dtype(dtype).kind
    if kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    if kind == "b":
        return 0, 1
    return (float(np.finfo(dtype).min), float(np.finfo(dtype).max)) if kind == "f" else (-math.inf, math.inf)


def _floats(item: Input, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if item.low is None and item.high is None:
        return random.standard_normal(shape)
    low = (item.high or 0.0) - 1.0 if item.low is None else item.low
    return random.uniform(low, low + 1.0 if item.high is None else item.high, shape)


def _mask(shape: tuple[int, ...], mode: Mode, masks: Masks, random: np.random.Generator) -> Array:
    import numpy as np

    if mode == "highest" or not shape or not all(shape):
        return np.ones(shape)
    length = shape[-1]
    if mode == "lowest":
        return np.broadcast_to(np.arange(length) < 1, shape)
    if masks == "right-padded":
        return np.arange(length) < random.integers(1, length + 1, (*shape[:-1], 1))
    chosen = random.integers(0, 2, shape)
    np.put_along_axis(chosen, random.integers(0, length, (*shape[:-1], 1)), 1, axis=-1)
    return chosen
