"""Handwritten digits that come with scikit-learn: 1,797 real images of 8 x 8, two thirds to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from orun import Dataset

Floats = NDArray[np.float32]
TRAINED_ON = 1200  # images; the others are of other writers


def training() -> tuple[Floats, NDArray[np.int64]]:
    """Images `[1200, 64]` in 0..1 and their digits `[1200]`."""
    pixels, digits = _all()
    return pixels[:TRAINED_ON], digits[:TRAINED_ON]


def rows() -> Dataset:
    """The 597 images that no model has learned from, as rows of 64 pixels."""
    pixels, digits = _all()
    return Dataset({"pixels": pixels[TRAINED_ON:]}, digits[TRAINED_ON:])


def images() -> Dataset:
    """The same images as `[8, 8, 1]`."""
    pixels, digits = _all()
    return _images(pixels[TRAINED_ON:], digits[TRAINED_ON:])


def calibration() -> Dataset:
    """Images of the training set, for the ranges of static quantization."""
    return _images(*training())


def _images(pixels: Floats, digits: NDArray[np.int64]) -> Dataset:
    return Dataset({"image": pixels.reshape(-1, 8, 8, 1)}, digits)


def _all() -> tuple[Floats, NDArray[np.int64]]:
    found: Any = load_digits()
    return (found.data / 16).astype(np.float32), found.target.astype(np.int64)
