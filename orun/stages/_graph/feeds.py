"""Made-up inputs of a model: seeded, at several sizes of each dynamic axis, random and at the bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orun.core import dynamic_axes
from orun.errors import UsageError
from orun.stages.common_parameters import FillName

if TYPE_CHECKING:
    import numpy as np

    from orun.measure.dataset import Array, Values

Mode = Literal["random", "lowest", "highest"]
Masks = Literal["any", "right-padded"]

SIZES = (1, 2, 7)  # default sizes of a dynamic axis
IMAGE = (64, 48)  # height and width at which a model of images of any size is tried, too
COLORS = (3, 4)  # channels of an image, without and with transparency
PIXEL = 255  # largest value of a pixel


@dataclass(frozen=True)
class Input:
    """Input of a model, and the values that it takes.

    Attributes:
        name: name of the input.
        dtype: numpy's name of its type.
        shape: the size or name of each axis, or the expression that it follows from (`past + sequence`).
        low, high: bounds of its values, both included; None for no bound.
        fill: what it is filled with. Masks hold 0 and 1, and at least one 1 along their last axis: an attention that
            sees nothing has no right answer.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None
    fill: FillName = "random"


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs for one run of a model, at some sizes of its dynamic axes; the title is for messages."""

    title: str
    sizes: Mapping[str, int]
    feed: Mapping[str, Array]


def is_image(dtype: str, shape: Sequence[int | str]) -> bool:
    """Return whether an input is most likely an image or several, by its type and axes: bytes, but no flags."""
    return dtype == "uint8" and len(shape) >= 3  # noqa: PLR2004 - height, width and channels or a batch


def list_axes(inputs: Sequence[Input]) -> tuple[str, ...]:
    """Return the names of the dynamic axes whose size follows from no other, each once."""
    return dynamic_axes.list_free(item.shape for item in inputs)


def assign_sizes(inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Return assignments of sizes to all dynamic axes: each axis takes each of its sizes, and axes differ.

    The last assignment has the height and width of an image, if no sizes are given for them. Runtimes have code of
    their own for tiny images, which may run where the code for others fails. Axes that follow from others get no size
    here. An axis without an entry in `sizes` takes `SIZES`.

    Raises:
        UsageError: when `sizes` names an unknown axis, has no size for one, or a negative size; when the declaration
            of an input allows no value.
    """
    for item in inputs:
        _require_possible(item)
    known = list_axes(inputs)
    for unknown in sorted(set(sizes) - set(known)):
        raise UsageError(
            f"the model has no dynamic axis {unknown!r}",
            why=f"its dynamic axes are {', '.join(known)}" if known else "none of its axes is dynamic",
        )
    for axis, chosen in sizes.items():
        if min(chosen, default=-1) < 0:
            problem = f"cannot be {min(chosen)}" if chosen else "has no size"
            raise UsageError(f"the dynamic axis {axis!r} {problem}", why="sizes are whole numbers from 0 on")
    choices = [tuple(sizes.get(axis, SIZES)) for axis in known]
    count = max(map(len, choices), default=1)
    assigned = [
        {
            axis: choice[(number + place) % len(choice)]
            for place, (axis, choice) in enumerate(zip(known, choices, strict=True))
        }
        for number in range(count)
    ]
    image = {axis: size for axis, size in _choose_image_sizes(inputs).items() if axis in known and axis not in sizes}
    return [*assigned, {**assigned[-1], **image}] if image else assigned


def _choose_image_sizes(inputs: Sequence[Input]) -> dict[str, int]:
    """Return sizes of the dynamic axes that are the height and width of an image, channels first or last."""
    image: dict[str, int] = {}
    for item in inputs:
        match item.shape:
            case (*_, str(height), str(width), int(channels)) | (*_, int(channels), str(height), str(width)):
                if channels in COLORS:
                    image |= zip((height, width), IMAGE, strict=True)
    return image


def _require_possible(item: Input) -> None:
    wrong = [axis for axis in item.shape if axis == "" or (isinstance(axis, int) and axis < 0)]
    if wrong:
        problem = f"of size {wrong[0]}" if wrong[0] else "without a name"
        hint = "give a size from 0 on, or the name of a dynamic axis"
        raise UsageError(f"input {item.name!r} has an axis {problem}", hint=hint)
    if item.dtype == "object":
        return
    if item.fill != "random" and {item.low, item.high} - {None, 0, 1}:
        raise UsageError(f"input {item.name!r} is a mask of 0 and 1, and cannot have other bounds")
    low, high = _choose_bounds(item)
    if low > high:
        bounds = f"{low:g} to {high:g}"
        raise UsageError(f"input {item.name!r} takes values from {bounds}, which is an empty range")
    least, most = get_type_bounds(item.dtype)
    if low < least or high > most:
        beyond = low if low < least else high
        raise UsageError(f"input {item.name!r} is of {item.dtype}, which cannot hold {beyond:g}")


def make_cases(
    inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]], seed: int, masks: Masks = "any"
) -> Iterator[Case]:
    """Yield random values at every assignment of sizes, then the bounds at the first without an axis of size 1."""
    import numpy as np

    assigned = assign_sizes(inputs, sizes)
    wide = next((item for item in assigned if min(item.values(), default=2) > 1), assigned[0])
    plan: list[tuple[dict[str, int], Mode]] = [(item, "random") for item in assigned]
    plan += [(wide, "lowest"), (wide, "highest")]
    for number, (axis_sizes, mode) in enumerate(plan):
        random = np.random.default_rng([seed, number])
        text = ", ".join(f"{axis}={size}" for axis, size in axis_sizes.items())
        title = f"{mode} values" + (f" at {text}" if text else "")
        feed = {item.name: _draw_values(item, axis_sizes, mode, masks, random) for item in inputs}
        yield Case(title, axis_sizes, feed)


def make_random_values(
    inputs: Sequence[Input], sizes: Mapping[str, int], random: np.random.Generator
) -> dict[str, Array]:
    """Return random values of every input at these sizes of the dynamic axes; masks are right-padded."""
    return {item.name: _draw_values(item, sizes, "random", "right-padded", random) for item in inputs}


def take_example(inputs: Mapping[str, Values], number: int, ranks: Mapping[str, int]) -> dict[str, Array]:
    """Return an example of a dataset as a model takes it, with an axis for the batch where the model has one.

    `ranks` has the number of axes of each input of the model.
    """
    import numpy as np

    # An example of scalars is a numpy scalar, which sessions refuse.
    arrays = {name: np.asarray(inputs[name][number]) for name in ranks if name in inputs}
    return {name: value if value.ndim == ranks[name] else value[None] for name, value in arrays.items()}


def _draw_values(item: Input, sizes: Mapping[str, int], mode: Mode, masks: Masks, random: np.random.Generator) -> Array:
    import numpy as np

    shape = tuple(dynamic_axes.compute_size(axis, sizes) if isinstance(axis, str) else axis for axis in item.shape)
    if item.fill != "random":
        return _draw_mask(shape, mode, "right-padded" if item.fill == "right-padded" else masks, random).astype(
            item.dtype
        )
    if item.dtype == "object":
        return np.full(shape, mode, dtype=object)
    if mode != "random":
        return np.full(shape, _choose_bounds(item)[mode == "highest"], item.dtype)
    if np.dtype(item.dtype).kind in "iub":
        low, high = _choose_bounds(item)
        return random.integers(int(low), int(high), shape, endpoint=True).astype(item.dtype)
    if item.low is None and item.high is None:
        return random.standard_normal(shape).astype(item.dtype)
    return random.uniform(*_choose_bounds(item), shape).astype(item.dtype)


def _choose_bounds(item: Input) -> tuple[float, float]:
    """Return the least and the largest value.

    A missing bound is 0 or 1, or that of a pixel; for floats it is 1 away from the other one if 0 or 1 is beyond that.
    """
    import numpy as np

    low, high = item.low, item.high
    if np.dtype(item.dtype).kind in "iub":
        most = PIXEL if is_image(item.dtype, item.shape) else 1
        return 0 if low is None else math.ceil(low), most if high is None else math.floor(high)
    if low is None:
        low = 0.0 if high is None else min(0.0, high - 1.0)
    return low, max(1.0, low + 1.0) if high is None else high


def get_type_bounds(dtype: str) -> tuple[float, float]:
    """Return the least and the largest finite value of a type."""
    import numpy as np

    kind = np.dtype(dtype).kind
    if kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    if kind == "b":
        return 0, 1
    return (float(np.finfo(dtype).min), float(np.finfo(dtype).max)) if kind == "f" else (-math.inf, math.inf)


def _draw_mask(shape: tuple[int, ...], mode: Mode, masks: Masks, random: np.random.Generator) -> Array:
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
