"""A fitted estimator as skl2onnx takes it: what computes the same and that it has no converter for is replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

Estimator: TypeAlias = Any  # whatever has `predict` or `transform`


def plainly(estimator: Estimator) -> Estimator:
    """A copy in which searches and frozen estimators are what they found and hold, wherever they are."""
    held = [deepcopy(estimator)]
    _replace(held, {})
    return held[0]


def inside(estimator: Estimator) -> Iterator[Estimator]:
    """The estimator and all that it is made of, each once."""
    pending, seen = [estimator], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if hasattr(one, "get_params"):
            yield one
        pending.extend(value for _, value in _parts(one))


def _replace(holder: Any, seen: dict[int, Any]) -> None:
    if id(holder) in seen:
        return
    seen[id(holder)] = holder  # which must not go, or another one may have its number
    for name, value in list(_parts(holder)):
        plain = _plain(value)
        if isinstance(plain, tuple):  # a step with its name
            parts = [*plain]
            _replace(parts, seen)
            if any(part is not before for part, before in zip(parts, plain, strict=True)):
                plain = tuple(parts)
        else:
            _replace(plain, seen)
        if plain is not value:
            _put(holder, name, plain)


def _plain(value: Any) -> Any:
    """What stands for a value; settings that matter for `transform` alone are as skl2onnx takes them."""
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
        value.estimators_ = [_line(one) if isinstance(one, LinearSVC) else one for one in value.estimators_]
    return value


def _line(machine: Estimator) -> Estimator:
    """A linear machine of two classes as a perceptron of the same scores: skl2onnx takes its two columns for one."""
    from sklearn.linear_model import Perceptron

    made = Perceptron()
    for name in ("coef_", "intercept_", "classes_", "n_features_in_"):
        setattr(made, name, getattr(machine, name))
    return made


def _parts(holder: Any) -> Iterator[tuple[Any, Any]]:
    """What an estimator, list, tuple or mapping holds, by name or place."""
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
