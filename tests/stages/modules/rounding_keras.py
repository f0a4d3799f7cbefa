"""A CNN of Keras that learns real digits while it rounds, by TensorFlow's operators for it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

from orun.measure.dataset import Dataset

TRAINED_ON = 1200  # images; the others are of other writers
FOLLOWS = 0.1  # how fast a range follows what it sees


class Rounded(layers.Layer):  # type: ignore[misc]  # keras is not checked
    """Rounds to 8 bits in the range that training shows."""

    def build(self, _shape: Any) -> None:
        """The bounds."""
        self.low, self.high = (
            self.add_weight(name=name, shape=(), initializer=initializer, trainable=False)
            for name, initializer in (("low", "zeros"), ("high", "ones"))
        )

    def call(self, x: Any, training: bool = False) -> Any:
        """The same, rounded."""
        if training:
            self.low.assign_add(FOLLOWS * (tf.reduce_min(x) - self.low))
            self.high.assign_add(FOLLOWS * (tf.reduce_max(x) - self.high))
        return tf.quantization.fake_quant_with_min_max_vars(x, self.low.value, self.high.value)


class Convolution(layers.Conv2D):  # type: ignore[misc]
    """Its weights are rounded, each output channel by a scale of its own."""

    def call(self, x: Any) -> Any:
        """The convolution."""
        most = tf.reduce_max(tf.abs(self.kernel.value), axis=(0, 1, 2))
        rounded = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            self.kernel.value, -most, most, narrow_range=True
        )
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, rounded, self.strides, "SAME"), self.bias))


class Product(layers.Dense):  # type: ignore[misc]
    """Its weights are rounded by one scale, in a range that has its zero where it falls."""

    def call(self, x: Any) -> Any:
        """The product."""
        weight = self.kernel.value
        bounds = tf.reduce_min(weight), tf.reduce_max(weight)
        return tf.matmul(x, tf.quantization.fake_quant_with_min_max_vars(weight, *bounds)) + self.bias


def trained() -> keras.Model:
    """Images `[batch, 8, 8, 1]` to the logits of ten digits."""
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            Rounded(),
            Convolution(8, 3, padding="same"),
            Rounded(),
            Convolution(16, 3, strides=2, padding="same"),
            Rounded(),
            layers.Flatten(),
            Product(10),
            Rounded(),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss)
    images, digits = _digits()
    model.fit(images[:TRAINED_ON], digits[:TRAINED_ON], batch_size=64, epochs=4, verbose=0)
    return model


def held_out() -> Dataset:
    """The 597 images that the network has not learned from."""
    images, digits = _digits()
    return Dataset({"image": images[TRAINED_ON:]}, digits[TRAINED_ON:])


def _digits() -> Any:
    digits = load_digits()
    return (digits.images[..., None] / 16).astype(np.float32), digits.target
