"""Limits of an ONNX reference model: its arbitrary values, and how far it is off by itself.

ONNX Runtime has no float64 kernels for many operators. So the spread is what the model differs by when ONNX Runtime
does not rearrange it, or when its inputs change in their last bit.
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
from orun.stages._graph.sessions import session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.stages._graph.feeds import Case
    from orun.stages._graph.sessions import Feed
    from orun.stages.contract import Context

    Array = NDArray[Any]

FILLS = (0.0, 1.0, -0.4)  # what rows that see nothing yield, several because values may be equal by chance
NUDGES = 3  # inputs that differ in their last bits, beside those that are given
OTHERWISE = "differs from itself, with other optimizations or the last bit of its inputs changed,"


@dataclass(frozen=True, eq=False)
class Limit:
    """What a reference can promise of one output for one case; both arrays have the shape of the output.

    Attributes:
        arbitrary: whether a value depends on attention rows that see nothing: such values count for nothing.
        spread: by how much the reference differs from itself: its result in another precision, or summed otherwise.
    """

    arbitrary: Array
    spread: Array


@dataclass(frozen=True)
class Limits:
    """What a reference can promise, found only for cases in which a candidate disagrees with it.

    Attributes:
        of: the limit of each output for a case, given the reference's answer.
        spread: what the reference does, for messages ("differs in float32 and float64").
    """

    of: Callable[[Case, Sequence[Array]], Sequence[Limit | None]]
    spread: str


def limits_of(context: Context, path: Path, outputs: Sequence[str], target: Target | None) -> Limits:
    """Return the limits of an ONNX model; nothing is opened before they are asked for.

    Args:
        context: of the stage; its working folder takes a copy of the model.
        path: of the model.
        outputs: names of those that are compared.
        target: where the reference runs.
    """
    from orun.stages._graph.masked_rows import filled

    chosen = target or Target("cpu")
    plain = replace(chosen, session={**chosen.session, "graph_optimization_level": "disable"})
    opened = functools.cache(lambda: session(path, outputs, plain))
    probed = functools.cache(lambda: filled(path, outputs, target))

    def find(case: Case, right: Sequence[Array]) -> Sequence[Limit | None]:
        answers = [(right, opened()(feed)) for feed in nudged(case.feed, context.seed)]
        return merge(answers, arbitrary(probed(), case.feed))

    return Limits(find, OTHERWISE)


def nudged(feed: Feed, seed: int) -> list[Feed]:
    """Return the inputs, and copies in which numbers with a fraction change by at most one unit in the last place.

    Zero stays zero. There are no copies when no input has a fraction.
    """
    import numpy as np

    random = np.random.default_rng(seed)

    def nudge(value: Array) -> Array:
        if value.dtype.kind != "f":
            return value
        steps = random.integers(-1, 2, value.shape) * float(np.finfo(value.dtype).eps)
        changed: Array = (value * (1 + steps)).astype(value.dtype)
        return changed

    if not any(value.dtype.kind == "f" for value in feed.values()):
        return [feed]
    return [feed, *({name: nudge(value) for name, value in feed.items()} for _ in range(NUDGES))]


def arbitrary(model: Callable[[Feed, float], Sequence[Array]] | None, feed: Feed) -> Sequence[Array] | None:
    """Return which values change with what attention rows that see nothing yield; None when there are no such rows.

    Args:
        model: answers with a number in place of what these rows yield; None when the model has no attention.
        feed: the inputs.
    """
    if model is None:
        return None
    first, *others = (model(feed, number) for number in FILLS)
    return [
        functools.reduce(operator.or_, (differs(one, other[place]) for other in others))
        for place, one in enumerate(first)
    ]


def merge(
    answers: Sequence[tuple[Sequence[Array], Sequence[Array]]], unseen: Sequence[Array] | None
) -> Sequence[Limit | None]:
    """Return the limit of each output; None for a sequence or a map.

    Args:
        answers: pairs that would be equal if the reference were exact.
        unseen: which values are arbitrary, for each output.
    """
    import numpy as np

    def limit(place: int, values: list[tuple[Any, Any]]) -> Limit | None:
        if not isinstance(values[0][0], np.ndarray):
            return None
        spread = np.max([_spread(one, other) for one, other in values], axis=0)
        return Limit(np.zeros(spread.shape, bool) if unseen is None else unseen[place], spread)

    return [limit(place, [(one[place], other[place]) for one, other in answers]) for place in range(len(answers[0][0]))]


def differs(value: Array, other: Array) -> Array:
    """Return where two arrays of one shape differ; NaN is equal to NaN."""
    import numpy as np

    both = np.isnan(value) & np.isnan(other) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
    found: Array = (value != other) & ~both
    return found


def _spread(value: Array, other: Array) -> Array:
    """By how much two answers differ, the most along the last axis; for what is no number, 1 where they do."""
    import numpy as np

    if value.dtype.kind != "f":
        return differs(value, other).astype(np.float64)
    apart = np.abs(value.astype(np.float64) - other.astype(np.float64))
    apart = np.where(np.isfinite(apart), apart, 0.0)
    return np.broadcast_to(apart.max(axis=-1, keepdims=True), apart.shape) if apart.ndim > 1 and apart.size else apart
