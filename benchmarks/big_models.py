"""What kinds that take code are given: as many weights as the model of `benchmarks/big.py`, and a change of nothing."""

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
    """As many and as wide layers as `pipelines/big.py` has."""
    layers = [module for _ in range(LAYERS) for module in (nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


def dense() -> keras.Model:
    """The same in Keras."""
    import keras

    layer = keras.layers.Dense
    layers = [layer(WIDTH, activation="relu", use_bias=False) for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((WIDTH,), name="x"), *layers])


def linear() -> LinearRegression:
    """As many weights in one regression of as many outputs as that takes."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    model.coef_ = np.random.default_rng(0).standard_normal((LAYERS * WIDTH, WIDTH), np.float32)
    model.intercept_ = np.zeros(LAYERS * WIDTH, np.float32)
    model.n_features_in_ = WIDTH
    return model


def rows() -> Dataset:
    """A few examples."""
    return Dataset({"x": np.random.default_rng(1).standard_normal((4, WIDTH), np.float32)})


def unchanged(model: ModelProto) -> ModelProto:
    """The model as it is, under a name of its own."""
    model.graph.name = "renamed"
    return model
