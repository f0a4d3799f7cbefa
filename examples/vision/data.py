"""The data: 1,797 handwritten digits of 8 x 8 pixels, from scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import orun

TRAINED_ON = 1200  # images; the others are of other writers, and judge the model


def training() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return images and digits to learn from."""
    images, digits = _images()
    return images[:TRAINED_ON], digits[:TRAINED_ON]


def calibration() -> orun.Dataset:
    """Return images to measure the ranges of activations on: never those that judge the model."""
    return orun.Dataset({"image": training()[0]})


def held_out() -> orun.Dataset:
    """Return the images that the model has not seen, with their digits."""
    images, digits = _images()
    return orun.Dataset({"image": images[TRAINED_ON:]}, labels=digits[TRAINED_ON:])


def _images() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    table = load_digits()
    return (table.images / 16).astype(np.float32)[:, None], table.target.astype(np.int64)
