"""Names in a parameter that the model must have: the tools ignore those that it has not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orun.errors import StageFailed
from orun.spelling import closest
from orun.stages.contract import Context


def require_known(context: Context, parameter: str, names: Collection[str], known: Collection[str]) -> None:
    """Refuse a name that the model does not have.

    Args:
        context: of the stage.
        parameter: where the names stand.
        names: what it says.
        known: what the model has.

    Raises:
        StageFailed: for the first that is not there, with the closest that is.
    """
    for name in names:
        if not name or name not in known:  # nodes without a name have an empty one: it tells none of them
            close = closest(name, known)
            raise StageFailed(
                context.stage,
                f"{parameter}: the model has no {name!r}",
                why=f"did you mean {close!r}?" if close else f"it has {len(set(known))} such names",
                hint="any ONNX viewer shows the names of nodes",
            )


def require_axes(context: Context, dims: Mapping[str, Sequence[int]]) -> None:
    """Refuse sizes of axes that the model does not have also where examples are given, which bring their own.

    Raises:
        UsageError: as `assignments` does.
    """
    from orun.stages.onnx.feeds import assignments
    from orun.stages.onnx.io import load_graph
    from orun.stages.onnx.signature import inputs_of

    if dims:
        assignments(inputs_of(load_graph(context.model())), dims)
