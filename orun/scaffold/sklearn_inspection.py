"""Inspection of scikit-learn estimators."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from orun.core.serialization import replace
from orun.errors import UsageError
from orun.fs.os_errors import quoted
from orun.scaffold.data_text import FUNCTION, data_text
from orun.scaffold.model_facts import ModelFacts


def inspect_pickle(name: str, path: Path, *, trust: bool) -> ModelFacts:
    """Return the facts about an estimator in a joblib or pickle file.

    Raises:
        UsageError: when it may not be, or cannot be, unpickled.
    """
    if not trust:
        raise UsageError(
            f"{path} was not read: it is a pickle, which can run any code",
            hint=f"if you know where it comes from: orun init {quoted(path)} --trust",
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

    from orun.scaffold.sklearn_columns import columns_of

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
    columns, is_matrix = columns_of(estimator)
    facts = ModelFacts("sklearn", name, columns=columns, is_matrix=is_matrix)
    return replace(facts, refusal=_refusal(estimator, facts))


def _refusal(estimator: Any, facts: ModelFacts) -> str:
    """Return why the estimator cannot take made-up examples; empty when it can."""
    from orun.stages._sklearn.check import answers_of
    from orun.stages._sklearn.export import table_of

    scope: dict[str, Any] = {}
    exec(data_text("", facts), scope)  # noqa: S102 - text that we write, and the user runs
    try:
        answers_of(estimator, table_of(scope[FUNCTION]().inputs, "float32"), raw=False)
    except Exception as error:  # noqa: BLE001 - whatever the estimator runs into
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
