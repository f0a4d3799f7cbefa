"""Code for the kinds of `benchmarks/big.py` that take functions: models with as many weights, and data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto
from torch import nn

from orun import Dataset

if TYPE_CHECKING:
    import keras
    from sklearn.linear_model import LinearRegression

LAYERS, WIDTH = 33, 4096


def wide() -> nn.Module:
    """Return the layers of `pipelines/big.py` in PyTorch."""
    layers = [module for _ in range(LAYERS) for module in (nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


def dense() -> keras.Model:
    """Return the same layers in Keras."""
    import keras

    layer = keras.layers.Dense
    layers = [layer(WIDTH, activation="relu", use_bias=False) for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((WIDTH,), name="x"), *layers])


def linear() -> LinearRegression:
    """Return a regression with as many weights, and so with many outputs."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    model.coef_ = np.random.default_rng(0).standard_normal((LAYERS * WIDTH, WIDTH), np.float32)
    model.intercept_ = np.zeros(LAYERS * WIDTH, np.float32)
    model.n_features_in_ = WIDTH
    return model


def rows() -> Dataset:
    """Return a few examples."""
    return Dataset({"x": np.random.default_rng(1).standard_normal((4, WIDTH), np.float32)})


def unchanged(model: ModelProto) -> ModelProto:
    """Return the model with another name and no other change."""
    model.graph.name = "renamed"
    return model
