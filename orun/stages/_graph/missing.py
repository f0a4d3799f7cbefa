"""Check for NaN in a dataset, for models that need numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orun.measure.accuracy.names import format_title
from orun.stages._graph.io import load_graph
from orun.stages.contract import Context

if TYPE_CHECKING:
    from orun.measure.dataset import Dataset, Values

QUANTIZERS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})  # they turn NaN into an integer
RECURRENT = frozenset({"GRU", "LSTM", "DynamicQuantizeLSTM"})  # ONNX Runtime's clip NaN to a number, as of 1.31
IMPUTER = "IsNaN"  # in models that replace missing values
HINT = "put a value in its place, or leave the example out, in what makes the dataset"


def require_ranges(context: Context, dataset: Dataset) -> None:
    """Refuse calibration examples without a range of values.

    Raises:
        StageFailed: when an example holds NaN, and the model does not handle NaN.
    """
    _refuse(context, dataset, "model", frozenset(), "values with NaN among them have no range")


def require_numbers(context: Context, dataset: Dataset) -> None:
    """Refuse examples with missing values that a model with integers or recurrent operators treats as numbers.

    Raises:
        StageFailed: when an example holds NaN, and a model of the stage turns it into a number without handling NaN.
    """
    why = (
        "it quantizes its values, and an integer cannot say that one is missing: the answer would be of another example"
    )
    clipped = "ONNX Runtime's recurrent operators turn NaN into a number, where the framework answers NaN"
    for role in context.inputs:
        _refuse(context, dataset, role, QUANTIZERS, why)
        _refuse(context, dataset, role, RECURRENT, clipped)


def _refuse(context: Context, dataset: Dataset, role: str, harmed: frozenset[str], why: str) -> None:
    """Refuse NaN in an input of a model that has one of the harmed operators; all models when there are none."""
    missing = _find_nan_inputs(dataset.inputs)
    if not missing:
        return
    graph = load_graph(context.model(role)).graph
    inputs, operators = {value.name for value in graph.input}, {node.op_type for node in graph.node}
    for name, (example, examples) in missing.items():
        if name in inputs and IMPUTER not in operators and (not harmed or harmed & operators):
            raise context.failed(
                f"example {example} of the {len(dataset)} used holds NaN in {name!r}, "
                f"which the {format_title(role)} treats as a number",
                why=f"{why}\n{examples} of {len(dataset)} examples hold one",
                hint=HINT,
            )


def _find_nan_inputs(inputs: Mapping[str, Values]) -> dict[str, tuple[int, int]]:
    """Return the inputs that hold NaN, with the first such example and the number of them."""
    import numpy as np

    result = {}
    for name, values in inputs.items():
        if isinstance(values, np.ndarray):
            floats = values.dtype.kind == "f"
            places = np.flatnonzero(np.isnan(values).reshape(len(values), -1).any(axis=1)).tolist() if floats else []
        else:
            places = [place for place, value in enumerate(values) if value.dtype.kind == "f" and np.isnan(value).any()]
        if places:
            result[name] = (places[0], len(places))
    return result
