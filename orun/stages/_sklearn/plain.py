"""Fitted estimators in the form that skl2onnx takes, with equivalents for those without a converter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

Estimator: TypeAlias = Any  # whatever has `predict` or `transform`
TREES = ("sklearn.tree.", "sklearn.ensemble._hist_gradient_boosting.", "xgboost.", "lightgbm.", "catboost.")  # modules


def find_column_names(estimator: Estimator) -> Sequence[Any] | None:
    """Return the names of the columns of the data frame that an estimator was fitted on; None for a matrix."""
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = getattr(estimator, "feature_names_", None)  # of CatBoost, which numbers the columns of a matrix
        return None if names == [str(place) for place in range(len(names or ()))] else names
    return names


def find_column(name: str, columns: Collection[str]) -> str | None:
    """Return the column that an estimator was fitted on: of its name, or with spaces where LightGBM has underscores."""
    return name if name in columns else next((item for item in columns if item.replace(" ", "_") == name), None)


def accept_empty_texts(estimator: Estimator) -> None:
    """Let an estimator take the empty text where it was fitted with missing texts: those of ONNX are never missing."""
    from sklearn.impute import SimpleImputer

    for part in iter_parts(estimator):
        if isinstance(part, SimpleImputer) and _imputes_texts(part):
            part.missing_values = ""
            if part.indicator_ is not None:
                part.indicator_.missing_values = ""
        elif isinstance(categories := getattr(part, "categories_", None), list):  # of an encoder
            part.categories_ = [_fill_missing_texts(group) for group in categories]


def remove_wrappers(estimator: Estimator) -> Estimator:
    """Return a copy in which the estimators inside replace searches and frozen estimators, at any depth."""
    holder = [deepcopy(estimator)]
    _replace(holder, {})
    return holder[0]


def take_last_step(estimator: Estimator) -> Estimator:
    """Return the last step of a pipeline; an estimator that is not a pipeline as it is."""
    from sklearn.pipeline import Pipeline

    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def iter_parts(estimator: Estimator) -> Iterator[Estimator]:
    """Yield the estimator and all estimators inside, each once."""
    return (part for part in walk(estimator) if hasattr(part, "get_params"))


def walk(estimator: Estimator) -> Iterator[Any]:
    """Yield the estimator and everything that it, and what is inside, has as members, each once."""
    pending, seen = [estimator], set[int]()
    while pending:
        part = pending.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend(value for _, value in _iter_members(part))


def has_trees(estimator: Estimator) -> bool:
    """Return whether trees are among the parts of an estimator."""
    return any(f"{type(part).__module__}.".startswith(TREES) for part in iter_parts(estimator))


def _replace(holder: Any, seen: dict[int, Any]) -> None:
    if id(holder) in seen:
        return
    seen[id(holder)] = holder  # kept alive, as a new object could reuse its id
    for name, value in list(_iter_members(holder)):
        plain = _replace_value(value)
        if isinstance(plain, tuple):  # a step with its name
            items = [*plain]
            _replace(items, seen)
            if any(item is not before for item, before in zip(items, plain, strict=True)):
                plain = tuple(items)
        else:
            _replace(plain, seen)
        if plain is not value:
            _put(holder, name, plain)


def _replace_value(value: Any) -> Any:
    """Return the replacement of a value, with settings of `transform` as skl2onnx takes them."""
    from sklearn.ensemble import VotingClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import KBinsDiscretizer
    from sklearn.svm import LinearSVC

    while True:
        if isinstance(value, BaseSearchCV) and hasattr(value, "best_estimator_"):
            value = value.best_estimator_
        elif isinstance(value, FrozenEstimator):
            value = value.estimator
        else:
            break
    if isinstance(value, VotingClassifier):
        value.flatten_transform = False
        value.weights = None if value.weights is None else np.asarray(value.weights)
    elif isinstance(value, KBinsDiscretizer) and value.encode == "onehot":
        value.encode = "onehot-dense"  # ONNX has no sparse matrices
    elif isinstance(value, OneVsRestClassifier):
        value.estimators_ = [
            _as_perceptron(part) if isinstance(part, LinearSVC) else part for part in value.estimators_
        ]
    return value


def _imputes_texts(imputer: Estimator) -> bool:
    """Return whether an imputer fills in texts for NaN or None."""
    learned = getattr(imputer, "statistics_", ())
    return any(isinstance(item, str) for item in learned) and not isinstance(imputer.missing_values, str)


def _fill_missing_texts(group: Any) -> Any:
    """Return the categories of a column, with the empty text for None, NaN and `pandas.NA` among texts."""
    if len({isinstance(item, str) for item in group}) == 1:
        return group
    return np.array([item if isinstance(item, str) else "" for item in group], dtype=object)


def _as_perceptron(machine: Estimator) -> Estimator:
    """Return a perceptron with the scores of a linear SVC of two classes: skl2onnx confuses the columns of an SVC."""
    from sklearn.linear_model import Perceptron

    perceptron = Perceptron()
    for name in ("coef_", "intercept_", "classes_", "n_features_in_"):
        setattr(perceptron, name, getattr(machine, name))
    return perceptron


def _iter_members(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the members of an estimator, list, tuple or mapping, by name or place."""
    if isinstance(holder, Mapping):
        yield from holder.items()
    elif isinstance(holder, (list, tuple)):
        yield from enumerate(holder)
    elif isinstance(holder, np.ndarray) and holder.dtype == object:
        yield from enumerate(holder.flat)
    elif type(holder).__module__.partition(".")[0] == "sklearn" or hasattr(holder, "get_params"):
        yield from getattr(holder, "__dict__", {}).items()


def _put(holder: Any, name: Any, value: Any) -> None:
    if isinstance(holder, np.ndarray):
        holder.flat[name] = value
    elif isinstance(holder, (dict, list)):
        holder[name] = value
    else:
        setattr(holder, name, value)
