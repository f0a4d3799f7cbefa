"""Values of a dataset that are no numbers, where a model has to have numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context

if TYPE_CHECKING:
    from orun.measure.dataset import Dataset, Values

QUANTIZES = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})  # NaN to an integer like any other
LOOKS = "IsNaN"  # of models that know of missing values, and put others in their place
HINT = "put a value in its place, or leave the example out, in what makes the dataset"


def require_ranges(context: Context, dataset: Dataset) -> None:
    """Refuse examples of which no ranges of values can be had.

    Raises:
        StageFailed: when one holds NaN, and the model does not look for it.
    """
    _refuse(context, dataset, "model", frozenset(), "values of which one is no number have no range")


def require_numbers(context: Context, dataset: Dataset) -> None:
    """Refuse examples that a model of integers would answer as if nothing were missing in them.

    Raises:
        StageFailed: when one holds NaN, and a model of the stage quantizes it without looking for it.
    """
    why = (
        "it quantizes its values, and an integer cannot say that one is missing: the answer would be of another example"
    )
    for role in context.inputs:
        _refuse(context, dataset, role, QUANTIZES, why)


def _refuse(context: Context, dataset: Dataset, role: str, operators: frozenset[str], why: str) -> None:
    found = _first(dataset.inputs)
    if not found:
        return
    taken, used = _parts(context.model(role))
    for name, (example, examples) in found.items():
        if name in taken and LOOKS not in used and (not operators or operators & used):
            raise StageFailed(
                context.stage,
                f"example {example} of the dataset holds NaN in {name!r}, which the {role} takes for a number",
                why=f"{why}\n{examples} of {len(dataset)} examples hold one",
                hint=HINT,
            )


def _first(inputs: Mapping[str, Values]) -> dict[str, tuple[int, int]]:
    """The inputs that hold NaN: the first example that does, and how many do."""
    import numpy as np

    found = {}
    for name, values in inputs.items():
        if isinstance(values, np.ndarray):
            floats = values.dtype.kind == "f"
            places = np.flatnonzero(np.isnan(values).reshape(len(values), -1).any(axis=1)).tolist() if floats else []
        else:
            places = [place for place, one in enumerate(values) if one.dtype.kind == "f" and np.isnan(one).any()]
        if places:
            found[name] = (places[0], len(places))
    return found


def _parts(model: Path) -> tuple[set[str], set[str]]:
    """The inputs of a model, and the operators that it uses outside of nested graphs and functions."""
    if model.suffix != ".onnx":
        return set(), set()
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    return {one.name for one in graph.input}, {node.op_type for node in graph.node}
