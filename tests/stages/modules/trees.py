"""Gradient-boosted trees on scikit-learn's small data sets, each by the library that is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import orun

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
BODIES, SUGAR = load_diabetes(return_X_y=True)
BODIES = BODIES.astype(np.float32)
NAMES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "xgboost": ("XGBClassifier", "XGBRegressor", {"n_estimators": 4, "max_depth": 4, "tree_method": "exact"}),
    "lightgbm": ("LGBMClassifier", "LGBMRegressor", {"n_estimators": 4, "num_leaves": 8, "verbose": -1}),
    "catboost": (
        "CatBoostClassifier",
        "CatBoostRegressor",
        {"n_estimators": 4, "verbose": False, "thread_count": 1, "allow_writing_files": False},
    ),
}


def digits() -> orun.Dataset:
    """Images of digits that no model here was fitted to."""
    return orun.Dataset({"X": X[600:800]}, Y[600:800])


def bodies() -> orun.Dataset:
    """Ten measurements of each of 100 people."""
    return orun.Dataset({"X": BODIES[300:400]})


def bodies_with_gaps() -> orun.Dataset:
    """The same, a third of them not measured."""
    values = BODIES[300:400].copy()
    values[np.random.default_rng(0).random(values.shape) < 0.3] = np.nan
    return orun.Dataset({"X": values})


def classifier(library: str, *, classes: int = 10) -> Any:
    """A classifier of digits, or of those below `classes`."""
    name, _, options = NAMES[library]
    chosen = Y[:600] < classes
    return getattr(import_module(library), name)(**options).fit(X[:600][chosen], Y[:600][chosen])


def regressor(library: str) -> Any:
    """A regressor of the progress of a disease."""
    _, name, options = NAMES[library]
    return getattr(import_module(library), name)(**options).fit(BODIES[:300], SUGAR[:300])


def pipeline(library: str) -> Any:
    """A classifier behind a scaler of scikit-learn, whose results here are exact in float32, too."""
    name, _, options = NAMES[library]
    return make_pipeline(MinMaxScaler(), getattr(import_module(library), name)(**options)).fit(X[:600], Y[:600])


MODELS: Mapping[str, Callable[..., Any]] = {
    "digits": classifier,
    "two": partial(classifier, classes=2),
    "bodies": regressor,
    "pipeline": pipeline,
}


def __getattr__(name: str) -> Callable[[], Any]:
    """`xgboost_digits`, ...: the function that returns that model of that library."""
    library, _, model = name.partition("_")
    if library not in NAMES or model not in MODELS:
        raise AttributeError(name)
    return partial(MODELS[model], library)
