"""Columns that a fitted scikit-learn estimator takes, with the values that its parts have learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from orun.core.serialization import replace
from orun.scaffold.data_text import MATRIX, name_columns
from orun.scaffold.model_facts import ColumnFact, Value
from orun.stages._sklearn.plain import find_column_names

MOST_VALUES = 12  # categories or words that made-up examples draw from
DIGITS = 4  # of the center and spread of numbers
Facts: TypeAlias = Iterator[tuple[int, ColumnFact]]
"""Facts by the place of a column; a later fact on the same column replaces an earlier one."""


def list_columns(estimator: Any) -> tuple[tuple[ColumnFact, ...], bool]:
    """Return the columns of an estimator, and whether it takes them as one matrix.

    Columns have the names of the data frame that the estimator was fitted on, else numbers. An estimator that takes
    texts has a single column, `X`.
    """
    names = find_column_names(estimator)
    count = getattr(estimator, "n_features_in_", None) if names is None else len(names)
    if count is None:
        fact = dict(_iter_learned(estimator, [0])).get(0, ColumnFact("", "text", doubt=type(estimator).__name__))
        return (replace(fact, name=MATRIX),), False
    facts = dict(_iter_learned(estimator, range(count)))
    columns = tuple(
        replace(facts.get(place, ColumnFact("")), name=str(name))
        for place, name in enumerate(name_columns(count) if names is None else names)
    )
    is_uniform = len({(column.holds_text, column.doubt) for column in columns}) == 1
    return columns, names is None and is_uniform


def _iter_learned(part: Any, places: Sequence[int]) -> Facts:
    """Yield what an estimator has learned about the columns at these places."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if isinstance(part, Pipeline):
        for _, step in part.steps:
            yield from _iter_learned(step, places)
            if not _keeps_values(step):
                return
    elif isinstance(part, ColumnTransformer):
        for _, transformer, columns in getattr(part, "transformers_", ()):
            yield from _iter_learned(transformer, [places[place] for place in _list_places(columns, part)])
    elif hasattr(part, "get_params"):
        yield from _read_attributes(part, places)
        for inner in _iter_inner_estimators(part):
            if getattr(inner, "n_features_in_", len(places)) == len(places):
                yield from _iter_learned(inner, places)


def _keeps_values(step: Any) -> bool:
    """Return whether the next step of a pipeline takes the same columns with the same values."""
    return step in ("passthrough", None) or (hasattr(step, "missing_values") and not step.add_indicator)


def _list_places(columns: Any, part: Any) -> list[int]:
    """Return the places of the columns of one transformer in a ColumnTransformer."""
    names = [*getattr(part, "feature_names_in_", ())]
    if not isinstance(columns, slice) and not np.size(columns):
        return []
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        start, stop = (None if end is None else names.index(end) for end in (columns.start, columns.stop))
        columns = slice(start, None if stop is None else stop + 1)
    elif isinstance(columns, str):
        columns = names.index(columns)
    elif not isinstance(columns, slice) and all(isinstance(item, str) for item in columns):
        columns = [names.index(item) for item in columns]
    return [int(place) for place in np.atleast_1d(np.arange(part.n_features_in_)[columns])]


def _iter_inner_estimators(part: Any) -> Iterator[Any]:
    """Yield the estimators directly inside an estimator, fitted ones last."""
    members = vars(part)
    pending = [members.get("estimator"), *(value for name, value in members.items() if "_" in (name[0], name[-1]))]
    for value in pending:
        if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object):
            pending.extend(np.ravel(value) if isinstance(value, np.ndarray) else value)
        elif hasattr(value, "get_params") or hasattr(value, "estimator"):  # what calibrates has the latter alone
            yield value if hasattr(value, "get_params") else value.estimator


def _read_attributes(part: Any, places: Sequence[int]) -> Facts:
    """Yield what the attributes of one estimator say."""
    if hasattr(part, "build_analyzer"):  # a vectorizer of texts
        yield places[0], ColumnFact("", "text", _choose_values(sorted(getattr(part, "vocabulary_", ()))))
        return
    is_foreign = type(part).__module__.partition(".")[0] != "sklearn" or getattr(part, "func", None)
    if is_foreign and not hasattr(part, "predict"):
        yield from ((place, ColumnFact("", doubt=type(part).__name__)) for place in places)
    for place, learned in zip(places, getattr(part, "statistics_", ()), strict=False):  # of an imputer
        yield place, ColumnFact("", "category", (learned,)) if isinstance(learned, str) else ColumnFact("")
    for place, learned in zip(places, getattr(part, "categories_", ()), strict=False):
        yield place, ColumnFact("", "category", _choose_values(learned))
    for place, (low, high) in zip(places, _iter_ranges(part, len(places)), strict=False):
        if math.isfinite(low + high):
            center = (low + high) / 2
            spread = (high - low) / 2 or abs(center) or 1.0
            yield place, ColumnFact("", center=_round(center), spread=_round(spread))


def _iter_ranges(part: Any, count: int) -> Iterable[tuple[float, float]]:
    """Yield the range of each column, as scalers, bins and the thresholds of trees tell it; NaN where unknown."""
    if hasattr(part, "tree_"):
        tree = part.tree_
        thresholds = (tree.threshold[tree.feature == place] for place in range(count))
        return [(item.min(), item.max()) if item.size else (math.nan, math.nan) for item in thresholds]
    edges = getattr(part, "bin_edges_", None)
    if edges is None and not np.any(getattr(part, "is_categorical_", False)):
        edges = getattr(part, "bin_thresholds_", None)  # of HistGradientBoosting
    if edges is not None:
        return [(item[0], item[-1]) if len(item) else (math.nan, math.nan) for item in edges]
    if hasattr(part, "data_min_"):
        return zip(part.data_min_, part.data_max_, strict=False)
    scale = getattr(part, "scale_", None)
    center = next((value for name in ("mean_", "center_") if (value := getattr(part, name, None)) is not None), None)
    if scale is None or center is None or np.ndim(scale) != 1:
        return ()
    return zip(center - scale, center + scale, strict=False)


def _round(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _choose_values(learned: Iterable[Any]) -> tuple[Value, ...]:
    """Return some of the categories or words, evenly spaced, without missing ones."""
    plain = [getattr(item, "item", lambda item=item: item)() for item in learned]
    present = [item for item in plain if item is not None and item == item]  # noqa: PLR0124 - NaN is not itself
    chosen = present[:: math.ceil(len(present) / MOST_VALUES) or 1]
    return tuple(item if isinstance(item, (str, int, float)) else str(item) for item in chosen)
