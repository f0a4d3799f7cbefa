"""The estimator: scaling and logistic regression."""

from __future__ import annotations

from data import training
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


def fitted() -> Pipeline:
    """Fit the estimator; the stage `convert` calls this when it runs."""
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*training())
