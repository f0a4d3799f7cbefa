"""Datasets of the examples."""

import numpy as np

from orun import Dataset


def examples() -> Dataset:
    """Images to judge a model on."""
    return Dataset({"image": np.random.default_rng(0).random((64, 1, 28, 28), dtype=np.float32)})


def calibration() -> Dataset:
    """Other images, to measure ranges on."""
    return Dataset({"image": np.random.default_rng(1).random((128, 1, 28, 28), dtype=np.float32)})


def labelled() -> Dataset:
    """The images to judge a model on, with a label each."""
    return Dataset(examples().inputs, labels=np.arange(64) % 10)
