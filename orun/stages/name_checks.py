"""Checks that names in a parameter exist in the model, because the tools ignore unknown ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orun.errors import StageFailed, UnknownName
from orun.stages.contract import Context


def require_known(parameter: str, names: Collection[str], known: Collection[str]) -> None:
    """Refuse a name that the model does not have.

    Args:
        parameter: where the names stand.
        names: what it says.
        known: what the model has.

    Raises:
        UnknownName: for the first that is not there.
    """
    for name in names:
        if not name or name not in known:  # nodes without a name have an empty one: it tells none of them
            raise UnknownName(
                f"{parameter}: the model has no {name!r}",
                name,
                sorted(set(known)),
                why=f"it has {len(set(known))} such names",
                hint="any ONNX viewer shows them",
            )


def require_made_up(context: Context, dims: Mapping[str, Sequence[int]], given: str) -> None:
    """Refuse sizes of dynamic axes where examples are given, which bring their own.

    Args:
        context: of the stage.
        dims: the sizes.
        given: the parameter that names the examples.

    Raises:
        StageFailed: when there are any.
    """
    if dims:
        raise StageFailed(
            context.stage,
            f"`dims` is of no use beside `{given}`",
            why="its examples bring their own sizes",
            hint=f"leave one of them out: without `{given}` inputs are made up, of these sizes",
        )
