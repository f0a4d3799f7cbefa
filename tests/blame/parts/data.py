"""The examples of the planted pipelines."""

from __future__ import annotations

import numpy as np

from orun import Dataset
from orun.measure.dataset import spread_indices


def rows() -> Dataset:
    """Rows of sixteen numbers."""
    return Dataset({"x": np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)})


def more_negative_rows() -> Dataset:
    """Rows of negative numbers but for those that a search with 64 examples takes."""
    numbers = -np.abs(np.random.default_rng(3).standard_normal((200, 16))).astype(np.float32)
    numbers[spread_indices(len(numbers), 64)] *= -1
    return Dataset({"x": numbers})


def many_rows() -> Dataset:
    """More of them."""
    return Dataset({"x": np.random.default_rng(2).standard_normal((200, 16)).astype(np.float32)})
