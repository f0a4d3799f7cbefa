"""Check that columns hold what the first transformers of an estimator were fitted on: numbers, texts, categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline

from orun.measure.dataset import Values
from orun.stages._sklearn.conversion import NUMBERS
from orun.stages._sklearn.plain import Estimator, remove_wrappers
from orun.stages.contract import Context
from orun.text.lists import join_few

NUMERIC = ("bin_edges_", "center_", "coef_", "data_min_", "mean_", "quantiles_", "scale_")  # learnt from numbers alone
TEXTS, FIGURES = "texts", "numbers"


def check_columns(context: Context, estimator: Estimator, inputs: Mapping[str, Values]) -> None:
    """Refuse a column of texts where numbers were fitted, and the reverse: skl2onnx fails on them, or misreads them.

    Categories that an encoder was not fitted on are refused where it refuses them, else noted.

    Raises:
        StageFailed: for the first such column.
    """
    columns = [*_iter_columns(inputs)]
    for step, places in _iter_first_steps(remove_wrappers(estimator), range(len(columns))):
        for number, place in enumerate(places):
            wanted = _find_fitted_type(step, number)
            if not wanted or place >= len(columns):
                continue
            name, values = columns[place]
            actual = TEXTS if any(isinstance(value, str) for value in values) else FIGURES
            if actual != wanted:
                row, value = _find_example(values, actual)
                raise context.failed(
                    f"column {name!r} holds {actual} ({value!r} in row {row + 1}); "
                    f"the {type(step).__name__} was fitted on {wanted}",
                    hint=_suggest(name, value, wanted),
                )
            categories = getattr(step, "categories_", ())
            if isinstance(categories, list) and len(categories) == len(places):
                _check_categories(context, step, categories[number], name, values)


def _check_categories(context: Context, step: Estimator, group: Any, name: str, values: Sequence[Any]) -> None:
    """Refuse or note the values of a column that are none of an encoder's categories; empty cells are left out."""
    known = {*group.tolist(), "", None}
    rows = [row for row, value in enumerate(values) if value not in known and value == value]  # noqa: PLR0124 - NaN
    if not rows:
        return
    unknown = join_few([*dict.fromkeys(repr(values[row]) for row in rows)])
    problem = f"column {name!r} holds categories that the {type(step).__name__} was not fitted on: {unknown}"
    if getattr(step, "handle_unknown", "") == "error":
        raise context.failed(
            problem,
            why=f"it was made with handle_unknown='error'; the first is in row {rows[0] + 1}",
            hint="correct the data, or fit an encoder that ignores others: handle_unknown='ignore'",
        )
    context.note(f"{problem}; it takes {len(rows)} of {len(values)} examples for unknown")


def _iter_columns(inputs: Mapping[str, Values]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the columns that an estimator sees, in order; a matrix has numbered ones."""
    for name, values in inputs.items():
        array = np.asarray(values)
        if array.ndim == 1:
            yield name, array.tolist()
        else:
            rows = array.reshape(len(array), -1)
            yield from ((f"{name}[{place}]", rows[:, place].tolist()) for place in range(rows.shape[1]))


def _iter_first_steps(estimator: Any, places: Sequence[int]) -> Iterator[tuple[Any, Sequence[int]]]:
    """Yield each transformer or estimator that sees the data as it is but for missing values, and its columns."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps:
            yield from _iter_first_steps(step, places)
            if not _only_imputes(step):
                break
    elif isinstance(estimator, FeatureUnion):
        for _, part in estimator.transformer_list:
            yield from _iter_first_steps(part, places)
    elif isinstance(estimator, ColumnTransformer):
        chosen = getattr(estimator, "_transformer_to_input_indices", {})
        for name, part, _ in getattr(estimator, "transformers_", ()):
            inner = [places[place] for place in chosen.get(name, ()) if place < len(places)]
            yield from _iter_first_steps(part, inner)
    elif hasattr(estimator, "get_params"):  # no `passthrough` or `drop`
        yield estimator, places


def _only_imputes(step: Any) -> bool:
    """Return whether a step fills in NaN or empty texts, and adds no columns."""
    return isinstance(step, SimpleImputer) and not step.add_indicator and str(step.missing_values) in ("nan", "")


def _find_fitted_type(step: Any, number: int) -> str:
    """Return what a transformer was fitted on in one of its columns; an empty text if that is not known."""
    kind = getattr(getattr(step, "_fit_dtype", None), "kind", "O")  # of a SimpleImputer
    if kind in NUMBERS or any(hasattr(step, name) for name in NUMERIC):
        return FIGURES
    learnt: Any = ()
    if isinstance(categories := getattr(step, "categories_", None), list) and number < len(categories):
        learnt = categories[number]
    elif getattr(step, "strategy", "") == "most_frequent" and number < len(getattr(step, "statistics_", ())):
        learnt = [step.statistics_[number]]
    kinds = {_classify(value) for value in learnt if value is not None and value == value}  # noqa: PLR0124 - NaN
    return kinds.pop() if len(kinds) == 1 else ""


def _classify(value: Any) -> str:
    return TEXTS if isinstance(value, str) else FIGURES if isinstance(value, float | int | np.number) else ""


def _find_example(values: Sequence[Any], actual: str) -> tuple[int, Any]:
    """Return the row and the value of the first text that is no number, else of the first value."""
    first = (0, values[0])
    for row, value in enumerate(values):
        if actual == FIGURES or not isinstance(value, str):
            continue
        try:
            float(value or "nan")
        except ValueError:
            return row, value
    return first


def _suggest(name: str, value: Any, wanted: str) -> str:
    if wanted == TEXTS:
        return f"`types: {{{name}: text}}` beside the path of the data, if its numbers name classes"
    with suppress(ValueError, AttributeError):
        return f"write {float(value.replace(',', '').replace(' ', '')):.15g}: a number has no separators of thousands"
    return "write numbers there, or leave a cell empty: `missing: nan`"
