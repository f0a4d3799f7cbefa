"""The examples of the planted pipelines."""

from __future__ import annotations

import numpy as np

from orun import Dataset


def rows() -> Dataset:
    """Rows of sixteen numbers."""
    return Dataset({"x": np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)})


def many_rows() -> Dataset:
    """More of them."""
    return Dataset({"x": np.random.default_rng(2).standard_normal((200, 16)).astype(np.float32)})
