"""Checks of names in parameters: that they exist in the model, because tools ignore unknown names, and differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orun.errors import UnknownName
from orun.stages.contract import Context
from orun.text.lists import join_few

SHOWN = 5  # names of the model in a message


def require_known(parameter: str, names: Collection[str], known: Collection[str], *, model: str = "the model") -> None:
    """Refuse a name that a model does not have.

    Raises:
        UnknownName: for the first unknown name.
    """
    for name in names:
        if not name or name not in known:  # nameless nodes have an empty name, which identifies none of them
            there = sorted({*known} - {""})
            raise UnknownName(
                f"{parameter}: {model} has no {name!r}",
                name,
                there,
                why=f"it has {join_few(there, SHOWN) or 'none with a name'}",
                hint="any ONNX viewer shows them" if len(there) > SHOWN else "",
            )


def require_made_up(context: Context, dims: Mapping[str, Sequence[int]], parameter: str) -> None:
    """Refuse sizes of dynamic axes for examples of a dataset, which have their own sizes.

    Raises:
        StageFailed: when there are any.
    """
    if dims:
        raise context.failed(
            f"`dims` has no effect with `{parameter}`",
            why="its examples have their own sizes",
            hint=f"leave one of them out: without `{parameter}` inputs are made up with these sizes",
        )


def require_names(context: Context, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuse inputs and outputs of a model without a name, or of one name.

    Raises:
        StageFailed: for the first such mistake.
    """
    names = [*inputs, *outputs]
    if "" in names:
        raise context.failed("inputs and outputs need names", why="one is empty")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise context.failed(
            f"inputs and outputs need names that differ, and {', '.join(map(repr, twice))} stands twice",
            why=f"inputs {', '.join(inputs)}; outputs {', '.join(outputs)}",
            hint="give the output another name in `outputs`",
        )


def require_order(context: Context, outputs: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names for the outputs of a model, in order, that give an output the name of another one.

    Raises:
        StageFailed: for the first such name.
    """
    for name, own in zip(outputs, known, strict=True):
        if name != own and name in known:
            raise context.failed(
                f"`outputs` gives the model's output {own!r} the name {name!r}, which another output has",
                why=f"it names them in order, and the model's own names are {', '.join(known)}",
                hint=f"outputs: [{', '.join(known)}], or other names in this order",
            )
