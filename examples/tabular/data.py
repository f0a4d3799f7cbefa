"""The data: 569 biopsies with 30 measurements each, from scikit-learn. Class 1 is benign, class 0 malignant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

import orun

TRAINED_ON = 300  # rows; the others judge the model


def training() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return rows and classes to learn from."""
    rows, classes = _table()
    return rows[:TRAINED_ON], classes[:TRAINED_ON]


def held_out() -> orun.Dataset:
    """Return the rows that the model has not seen, with their classes."""
    rows, classes = _table()
    return orun.Dataset({"measurements": rows[TRAINED_ON:]}, labels=classes[TRAINED_ON:])


def _table() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    table = load_breast_cancer()
    return table.data.astype(np.float32), table.target.astype(np.int64)
