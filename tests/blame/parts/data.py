"""The examples of the planted pipelines."""

from __future__ import annotations

import numpy as np

from orun import Dataset


def rows() -> Dataset:
    """Rows of sixteen numbers."""
    return Dataset({"x": np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)})


def more_negative_rows() -> Dataset:
    """64 rows of positive numbers, and after them more of negative ones."""
    numbers = np.abs(np.random.default_rng(3).standard_normal((200, 16))).astype(np.float32)
    return Dataset({"x": np.concatenate([numbers[:64], -numbers[64:]])})


def many_rows() -> Dataset:
    """More of them."""
    return Dataset({"x": np.random.default_rng(2).standard_normal((200, 16)).astype(np.float32)})
