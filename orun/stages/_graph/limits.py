"""Limits of an ONNX reference model: its arbitrary values, and the spread of its own results.

ONNX Runtime has no float64 kernels for many operators. So the spread is measured without ONNX Runtime's optimizations,
and with rounding errors added to its inputs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.serialization import replace
from orun.core.targets import Target
from orun.stages._graph.sessions import open_model

if TYPE_CHECKING:
    from orun.measure.dataset import Array
    from orun.stages._graph.feeds import Case
    from orun.stages._graph.sessions import Feed
    from orun.stages.contract import Context

FILLS = (0.0, 1.0, -0.4)  # results of rows that see nothing; several, because values may be equal by chance
NUDGES = 3  # copies of the inputs with rounding errors
SPREAD = "differs from itself, with other optimizations and rounding errors added to its inputs,"


@dataclass(frozen=True, eq=False)
class Limit:
    """Limit of a reference for one output of one case; both arrays have the shape of the output.

    Attributes:
        arbitrary: whether a value depends on attention rows that see nothing; such values are not compared.
        spread: how far the reference differs from itself in another precision or order of sums, or with rounding errors
            in its inputs.
    """

    arbitrary: Array
    spread: Array


@dataclass(frozen=True)
class Limits:
    """Limits of a reference, computed only for cases in which a candidate disagrees with it.

    Attributes:
        of: returns the limit of each output for a case and the reference's answer.
        spread: what the spread is, for messages ("differs from itself, with rounding errors added to its inputs,").
    """

    of: Callable[[Case, Sequence[Array]], Sequence[Limit | None]]
    spread: str


def build_limits(context: Context, path: Path, outputs: Sequence[str], target: Target | None) -> Limits:
    """Return the limits of an ONNX model; sessions are opened on first use."""
    from orun.stages._graph.masked_rows import open_filled

    chosen = target or Target("cpu")
    plain = replace(chosen, session={**chosen.session, "graph_optimization_level": "disable"})
    opened = functools.cache(lambda: open_model(path, outputs, plain))
    probed = functools.cache(lambda: open_filled(path, outputs, target))

    def find(case: Case, right: Sequence[Array]) -> Sequence[Limit | None]:
        answers = [(right, opened()(feed)) for feed in nudge(case.feed, context.seed)]
        return merge(answers, find_arbitrary(probed(), case.feed))

    return Limits(find, SPREAD)


def nudge(feed: Feed, seed: int) -> list[Feed]:
    """Return the inputs, and copies with rounding errors: numbers with a fraction change by what a sum of them loses.

    The relative error of a sum of n numbers in float32 is about sqrt(n) units in the last place (N. J. Higham, The
    accuracy of floating point summation, SIAM J. Sci. Comput. 14, 1993). On a constant waveform it is all that a norm
    sees. Zero stays zero. There are no copies when no input has a fraction.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    unit = float(np.finfo(np.float32).eps)

    def change(value: Array) -> Array:
        if value.dtype.kind != "f":
            return value
        eps = float(np.finfo(value.dtype).eps)
        step = max(eps, min(eps, unit) * value.size**0.5)
        changed: Array = (value * (1 + step * random.integers(-1, 2, value.shape))).astype(value.dtype)
        return changed

    if not any(value.dtype.kind == "f" for value in feed.values()):
        return [feed]
    return [feed, *({name: change(value) for name, value in feed.items()} for _ in range(NUDGES))]


def find_arbitrary(model: Callable[[Feed, float], Sequence[Array]] | None, feed: Feed) -> Sequence[Array] | None:
    """Return which values depend on attention rows that see nothing; None where no row can.

    The model takes a number as the result of these rows; it is None without such rows.
    """
    if model is None:
        return None
    first, *rest = (model(feed, number) for number in FILLS)
    return [
        functools.reduce(operator.or_, (differs(value, answer[place]) for answer in rest))
        for place, value in enumerate(first)
    ]


def merge(
    answers: Sequence[tuple[Sequence[Array], Sequence[Array]]], unseen: Sequence[Array] | None
) -> Sequence[Limit | None]:
    """Return the limit of each output; None for a sequence or a map.

    The pairs of answers would be equal if the reference were exact. `unseen` tells which values of each output are
    arbitrary.
    """
    import numpy as np

    def build_limit(place: int, values: list[tuple[Any, Any]]) -> Limit | None:
        if not isinstance(values[0][0], np.ndarray):
            return None
        spread = np.max([_measure_spread(*pair) for pair in values], axis=0)
        return Limit(np.zeros(spread.shape, bool) if unseen is None else unseen[place], spread)

    outputs = range(len(answers[0][0]))
    return [build_limit(place, [(left[place], right[place]) for left, right in answers]) for place in outputs]


def differs(value: Array, other: Array) -> Array:
    """Return where two arrays of one shape differ; NaN is equal to NaN."""
    import numpy as np

    both = np.isnan(value) & np.isnan(other) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
    result: Array = (value != other) & ~both
    return result


def _measure_spread(value: Array, other: Array) -> Array:
    """Return the differences of two answers, the largest of each example; 1 for unequal integers or texts."""
    import numpy as np

    if value.dtype.kind != "f":
        return differs(value, other).astype(np.float64)
    distance = np.abs(value.astype(np.float64) - other.astype(np.float64))
    distance = np.where(np.isfinite(distance), distance, 0.0)
    if not distance.size:
        return distance
    return np.broadcast_to(distance.max(axis=tuple(range(1, distance.ndim)), keepdims=True), distance.shape)
