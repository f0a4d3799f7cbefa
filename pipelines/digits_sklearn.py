"""A pipeline of scikit-learn that is fitted when its pipeline of orun runs."""

from __future__ import annotations

from digits import training  # type: ignore[import-not-found]  # beside this file
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


def fitted() -> Pipeline:
    """Scaling and logistic regression over 64 pixels."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=300)).fit(*training())


def forest() -> RandomForestClassifier:
    """Fifty trees over 64 pixels."""
    return RandomForestClassifier(50, random_state=0).fit(*training())
