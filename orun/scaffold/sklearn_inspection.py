"""Inspection of scikit-learn estimators."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.serialization import replace
from orun.errors import MissingPackages, UsageError
from orun.scaffold.data_text import FUNCTION, format_data
from orun.scaffold.model_facts import ColumnFact, ModelFacts

if TYPE_CHECKING:
    from orun.measure.dataset import Array
    from orun.stages._sklearn.export import Table


def inspect_pickle(name: str, path: Path, *, trust: bool) -> ModelFacts:
    """Return the facts about an estimator in a joblib or pickle file.

    Raises:
        UsageError: when it may not be, or cannot be, unpickled.
    """
    if not trust:
        raise UsageError(
            f"{path} was not read: it is a pickle, which can run any code",
            hint="if you know where it comes from: the same command with --trust",
        )
    import joblib
    import sklearn
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = joblib.load(path)
        except Exception as error:
            raise UsageError(
                f"{path} cannot be unpickled",
                why=f"{type(error).__name__}: {error}\n"
                f"it was written by another version of scikit-learn than {sklearn.__version__}, needs code that is "
                "not here, or is no pickle",
                hint="write it again with these versions, or write a function that trains it: "
                "orun init file.py:function",
            ) from error
    versions = {
        item.message.original_sklearn_version for item in caught if isinstance(item.message, InconsistentVersionWarning)
    }
    facts = replace(inspect_estimator(name, estimator), needs_trust=True)
    if not versions:
        return facts
    written = ", ".join(sorted(versions))
    warning = f"scikit-learn {written} wrote {path}, and {sklearn.__version__} reads it: its predictions may differ"
    return replace(facts, warning=warning)


def inspect_estimator(name: str, estimator: Any) -> ModelFacts:
    """Return the facts about a fitted estimator.

    Raises:
        UsageError: when it is no estimator, or not fitted.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    from orun.scaffold.sklearn_columns import list_columns

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        hint = "fit it before it is saved: estimator.fit(X, y)"
        raise UsageError(
            f"{name} is not fitted", why=f"{type(estimator).__name__} has learned nothing", hint=hint
        ) from error
    except TypeError as error:
        raise UsageError(
            f"{name} is not a scikit-learn estimator",
            why=f"it holds {type(estimator).__name__}",
            hint='save the fitted estimator itself: joblib.dump(estimator, "model.joblib")',
        ) from error
    columns, is_matrix = list_columns(estimator)
    facts = ModelFacts("sklearn", name, columns=columns, is_matrix=is_matrix)
    from orun.stages._sklearn.export import tabulate

    scope: dict[str, Any] = {}
    exec(format_data("", facts), scope)  # noqa: S102 - text that we write, and the user runs
    examples = tabulate(scope[FUNCTION]().inputs, "float32")
    if refusal := _explain_refusal(estimator, examples):
        return replace(facts, refusal=refusal)
    return replace(facts, columns=_mark_missing(estimator, examples, columns))


def _explain_refusal(estimator: Any, examples: Table) -> str:
    """Return why the estimator cannot take examples; empty when it can.

    Raises:
        MissingPackages: when a data frame is needed, and pandas is not installed.
    """
    from orun.stages._sklearn.check import compute_answers

    try:
        compute_answers(estimator, examples, raw=False)
    except (MissingPackages, ModuleNotFoundError):  # which says nothing about the examples
        raise
    except Exception as error:  # noqa: BLE001 - whatever the estimator runs into
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _mark_missing(estimator: Any, examples: Table, columns: Sequence[ColumnFact]) -> tuple[ColumnFact, ...]:
    """Return the columns with those marked in which the estimator takes missing values, all together or each alone."""
    from orun.stages._sklearn.plain import accept_empty_texts

    accept_empty_texts(estimator)
    places = range(len(columns))
    takes_all = not _explain_refusal(estimator, _empty_columns(examples, places))
    return tuple(
        replace(column, takes_missing=takes_all or not _explain_refusal(estimator, _empty_columns(examples, [place])))
        for place, column in enumerate(columns)
    )


def _empty_columns(examples: Table, places: Collection[int]) -> Table:
    """Return examples that have no values in the columns at these places: NaN, or the empty text among texts."""
    import numpy as np

    from orun.stages._sklearn.export import Table

    columns: dict[str, Array] = {}
    first = 0
    for name, values in examples.columns.items():
        rows = values.reshape(len(values), -1)
        emptied = [place - first for place in places if first <= place < first + rows.shape[1]]
        first += rows.shape[1]
        if emptied:
            rows = rows.astype(object if rows.dtype == object else np.float64)
            rows[:, emptied] = "" if rows.dtype == object else np.nan
        columns[name] = rows.reshape(values.shape)
    return Table(columns)
