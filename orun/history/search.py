"""Search of the history by the name of a metric."""

from __future__ import annotations

from orun.errors import UsageError
from orun.history.database import History
from orun.history.points import Point
from orun.text.suggestions import nearest, one_of


def find_points(history: History, metric: str, pipeline: str) -> tuple[Point, ...]:
    """Return the measurements of a metric, the oldest first.

    Args:
        history: where to look.
        metric: `p50`, or `latency.p50` of one stage; every metric when empty.
        pipeline: name of a pipeline; every pipeline when empty.

    Raises:
        UsageError: if there are none.
        StoreError: if the history cannot be read.
    """
    columns = {"pipeline": pipeline} if pipeline else {}
    points = history.points(**columns, **({"name": metric} if metric else {}))
    if points:
        return points
    names = history.names(**columns)
    if not names:
        message = f"nothing of {pipeline} was measured yet" if pipeline else "nothing was measured yet"
        raise UsageError(message, why=f"looked in {history.path}", hint="orun FILE")
    known = sorted({f"{stage}.{name}" for stage, name in names} | {name for _, name in names})
    close = nearest(metric, known)
    expected = one_of(name for name in known if "[" not in name)
    why = f"did you mean {one_of(close)}?" if close else f"expected {expected}"
    raise UsageError(f"no measurement of '{metric}'", why=why, hint="orun history")
