"""Limits of a TensorFlow model: how far its answers move with rounding errors added to inputs and weights."""

from __future__ import annotations

from collections.abc import Sequence

from orun.measure.dataset import Array
from orun.stages._graph.feeds import Case
from orun.stages._graph.limits import NUDGES, Limit, Limits, differs, merge, nudge
from orun.stages._tf.function import Function
from orun.stages._tf.lite import Lite
from orun.stages.contract import Context

SPREAD = "differs from itself, with rounding errors added to its inputs and weights,"


def build_limits(context: Context, model: Function | Lite) -> Limits:
    """Return the limits of a model; nothing is computed until a check needs them.

    Attention rows that see nothing need no look: the converted model masks them with the same operations.
    """

    def find(case: Case, right: Sequence[Array]) -> Sequence[Limit | None]:
        if any(differs(value, again).any() for value, again in zip(right, model(case.feed), strict=True)):
            return [None] * len(right)  # it draws random numbers, which excuse nothing
        feeds = nudge(case.feed, context.seed)[1:] or [case.feed] * NUDGES
        answers = []
        for number, feed in enumerate(feeds):
            with model.nudged_weights(context.seed + number):
                answers.append((right, model(feed)))
        return merge(answers, None)

    return Limits(find, SPREAD)
