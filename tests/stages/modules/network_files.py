"""Networks in every kind of file of Keras and TensorFlow."""

from __future__ import annotations

import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.stages.modules import networks


class Scale(keras.layers.Layer):  # type: ignore[misc]  # Keras is not checked
    """A layer whose code a stage does not have."""


class Coder(tf.Module):  # type: ignore[misc]  # TensorFlow is not checked
    """Two functions that may be signatures."""

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])  # type: ignore[untyped-decorator]
    def encode(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"code": x + 1.0}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])  # type: ignore[untyped-decorator]
    def decode(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"value": x - 1.0}


def _save_signatures(folder: Path) -> None:
    """Save SavedModels with no, one and two signatures, none of them the default; a TFLite file with two."""
    coder = Coder()
    signatures = {"encode": coder.encode, "decode": coder.decode}
    tf.saved_model.save(coder, str(folder / "unsigned"))
    tf.saved_model.save(coder, str(folder / "encoder"), signatures={"encode": coder.encode})
    tf.saved_model.save(coder, str(folder / "coder"), signatures=signatures)
    lite = tf.lite.TFLiteConverter.from_saved_model(str(folder / "coder"), signature_keys=[*signatures]).convert()
    (folder / "coder.tflite").write_bytes(lite)


def save(folder: Path) -> None:
    """Save a CNN as `model` and `saved`, with an answer, a loop, other signatures, and files of an unknown layer."""
    keras.utils.set_random_seed(0)
    with warnings.catch_warnings(action="ignore"):  # TensorFlow warns of itself
        model = networks.sequential()
        model.save(folder / "model.keras")
        model.save(folder / "model.h5")
        model.export(folder / "saved", verbose=False)
        lite = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert()
        (folder / "model.tflite").write_bytes(lite)
        concrete = tf.function(lambda x: model(x, training=False)).get_concrete_function(
            tf.TensorSpec([None, 8, 8, 1], tf.float32, name="image")
        )
        frozen = convert_variables_to_constants_v2(concrete).graph.as_graph_def()
        (folder / "model.pb").write_bytes(frozen.SerializeToString())
        image = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
        np.save(folder / "image.npy", image)
        np.save(folder / "answer.npy", model(image, training=False).numpy())
        _save_signatures(folder)
        networks.recurrent().export(folder / "loop", verbose=False)
        keras.Sequential([keras.Input((2,)), Scale()]).save(folder / "own.keras")
        ids = keras.Input((3,))
        masked = keras.layers.Embedding(4, 2, mask_zero=True)(ids)
        keras.Model(ids, keras.layers.GlobalAveragePooling1D()(masked)).save(folder / "masked.h5")
