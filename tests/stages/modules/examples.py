"""Datasets for kinds that calibrate."""

from __future__ import annotations

import numpy as np

from orun.measure.dataset import Dataset


def rows() -> Dataset:
    """A hundred rows of four numbers between -3 and 3."""
    return Dataset({"x": np.random.default_rng(0).uniform(-3, 3, (100, 4)).astype(np.float32)})


def threes() -> Dataset:
    """One row of three numbers."""
    return Dataset({"x": np.ones((1, 3), np.float32)})


def outliers() -> Dataset:
    """The same, and one that is a hundred times as large."""
    values = rows().inputs["x"]
    assert isinstance(values, np.ndarray)
    return Dataset({"x": np.concatenate([values, values[:1] * 100])})


def tokens() -> Dataset:
    """Sixteen texts of different lengths for the tiny BERT."""
    random = np.random.default_rng(0)
    lengths = random.integers(3, 20, 16)
    return Dataset(
        {
            "input_ids": [random.integers(0, 100, length) for length in lengths],
            "attention_mask": [np.ones(length, np.int64) for length in lengths],
        }
    )


def padded() -> Dataset:
    """Texts of one length, the second half of each masked."""
    ids = np.random.default_rng(0).integers(0, 100, (8, 10))
    return Dataset({"input_ids": ids, "attention_mask": np.repeat([[1, 0]], 5, axis=1).repeat(8, axis=0)})


def images() -> Dataset:
    """Eight images of noise, `[3, 8, 8]`."""
    return Dataset({"image": np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32)})


class Reader:
    """ONNX Runtime's way: batches, one after another."""

    def get_next(self) -> None:
        """End."""


def wrong() -> list[int]:
    """No dataset."""
    return [1]
