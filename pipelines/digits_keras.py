"""A small CNN of Keras that is trained when its pipeline runs."""

from __future__ import annotations

import keras
from digits import training  # type: ignore[import-not-found]  # beside this file
from keras import layers

EPOCHS = 8


def trained() -> keras.Model:
    """The network, trained: images `[batch, 8, 8, 1]` in 0..1 to the probabilities of ten digits.

    Its weights follow the seed of the pipeline, which the stage has set.
    """
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    images, digits = training()
    model.fit(images.reshape(-1, 8, 8, 1), digits, batch_size=64, epochs=EPOCHS, verbose=0)
    return model
