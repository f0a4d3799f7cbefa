"""Small networks of Keras and TensorFlow with made-up weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers


def sequential() -> keras.Model:
    """A CNN over images of 8 x 8."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(2),
            layers.Dropout(0.5),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def cropped() -> keras.Model:
    """Declares images of any size, and runs at 4 x 8 only."""
    image = keras.Input((None, None, 1), name="image")
    flat = keras.ops.reshape(image, (-1, 32))
    return keras.Model(image, layers.Dense(3)(flat))


def resized() -> keras.Model:
    """Images of any size, twice as large: TensorFlow needs their size for it."""
    image = keras.Input((None, None, 3), name="image")
    return keras.Model(image, layers.UpSampling2D(interpolation="bilinear")(image))


def bicubic() -> Any:
    """Resizes one image."""
    return tf.function(
        lambda image: tf.image.resize(image[None], (32, 32), "bicubic"),
        input_signature=[tf.TensorSpec([None, None, 3], tf.float32, name="image")],
    )


def unbuilt() -> keras.Model:
    """Layers that do not know yet what they take."""
    return keras.Sequential([layers.Dense(2)])


def masked(read: Callable[[Any], Any] = lambda hidden: hidden) -> keras.Model:
    """Tokens with a mask, and what reads them: two inputs and two outputs by name."""
    ids = keras.Input((None,), name="ids", dtype="int32")
    mask = keras.Input((None,), name="mask", dtype="float32")
    hidden = read(layers.Embedding(20, 8)(ids) * keras.ops.expand_dims(mask, -1))
    return keras.Model(
        {"ids": ids, "mask": mask}, {"sequence": hidden, "pooled": layers.GlobalAveragePooling1D()(hidden)}
    )


def attentive() -> keras.Model:
    """Attention over them."""
    return masked(lambda hidden: layers.LayerNormalization()(layers.MultiHeadAttention(2, 4)(hidden, hidden) + hidden))


def prepared() -> keras.Model:
    """A mean and variance that it holds as plain tensors, and operators of TensorFlow's that ONNX has not."""
    scores = keras.Input((6,), name="scores")
    hidden = layers.Normalization(mean=[0.5, 1, 2, 3, 4, 5], variance=[1.0, 2, 3, 4, 5, 6])(scores)
    hidden = layers.Dense(6, activation="gelu")(hidden)
    hidden = keras.ops.log1p(keras.ops.abs(layers.Activation("celu")(hidden)))
    return keras.Model(scores, layers.Dense(2)(hidden))


def two_outputs() -> keras.Model:
    x = keras.Input((4,), name="x")
    return keras.Model(x, [layers.Dense(3, name="kind")(x), layers.Dense(1, name="score")(x)])


def shared_output() -> keras.Model:
    x = keras.Input((4,), name="x")
    layer = layers.Dense(4, name="twice")
    return keras.Model(x, [layer(x), layer(layer(x))])


def without_an_operator() -> keras.Model:
    """TensorFlow has an inverse of the error function."""
    scores = keras.Input((6,), name="scores")
    return keras.Model(scores, keras.ops.erfinv(keras.ops.tanh(scores)))


def texts_by_a_table() -> keras.Model:
    """TensorFlow keeps the table outside of the graph."""
    town = keras.Input((1,), dtype="string", name="town")
    return keras.Model(town, layers.StringLookup(vocabulary=["Bonn", "Ulm"], output_mode="one_hot")(town))


def texts_in_parts() -> keras.Model:
    """Texts as the numbers of their words."""
    text = keras.Input((), dtype="string", name="text")
    return keras.Model(text, layers.TextVectorization(vocabulary=["good", "bad"], output_sequence_length=4)(text))


def texts_compared() -> Any:
    """Towns as a row of flags each."""
    return tf.function(
        lambda town: tf.cast(town == tf.constant([["Bonn", "Ulm"]]), tf.float32),
        input_signature=[tf.TensorSpec([None, 1], tf.string, name="town")],
    )


def recurrent() -> keras.Model:
    """An LSTM and a GRU: loops, or the operators of ONNX for them."""
    return keras.Sequential(
        [keras.Input((5, 3)), layers.LSTM(4, return_sequences=True), layers.GRU(3), layers.Dense(2)]
    )


class Scorer(keras.Model):  # type: ignore[misc]  # Keras is not checked
    """Adds two inputs up and scores them, and does not say what it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, left: Any, right: Any, *, training: bool = False) -> Any:
        """Two `[batch, 4]`."""
        del training
        return self.dense(left + right)


subclassed = Scorer


class Affine(tf.Module):  # type: ignore[misc]  # TensorFlow is not checked
    """A module of plain TensorFlow, whose call has a signature."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.random.normal([3, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])  # type: ignore[untyped-decorator]  # the same
    def __call__(self, x: Any) -> Any:
        """`[n, 3]` to `[n, 2]`."""
        return {"y": x @ self.weight, "sum": tf.reduce_sum(x, axis=1)}


module = Affine


def function() -> Any:
    """A function without a signature."""
    return tf.function(lambda x, y: x * y + 1.0)


def logarithm() -> Any:
    """Is not finite below zero."""
    return tf.function(tf.math.log, input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])


def random() -> Any:
    """Draws anew at each call."""
    return tf.function(
        lambda x: x + tf.random.uniform(tf.shape(x)), input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")]
    )


def stateful() -> keras.Model:
    """Goes on where its last call ended."""
    steps = keras.Input(batch_shape=(1, 1, 5))
    return keras.Model(steps, keras.layers.LSTM(16, stateful=True)(steps))


def text() -> str:
    """No model."""
    return "model"


def speech() -> keras.Model:
    """Convolutions of a waveform, of which the first is normed over time, as wav2vec 2.0 has them."""
    sound = keras.Input((None, 1))
    value = layers.Conv1D(32, 10, strides=5, use_bias=False)(sound)
    value = layers.Activation("gelu")(layers.GroupNormalization(32, epsilon=1e-5)(value))
    for _ in range(2):
        value = layers.Conv1D(32, 3, strides=2, use_bias=False, activation="gelu")(value)
    value = layers.LayerNormalization(epsilon=1e-5)(value)
    return keras.Model(sound, layers.Dense(4)(value))
