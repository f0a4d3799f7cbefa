"""Every layer of Keras on inputs of the kind that it takes: those that are converted as outputs of few models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
from keras import layers as kl

VALUES, STEPS, LINE, IMAGE, ROOM = (6,), (5, 4), (9, 4), (8, 8, 4), (6, 6, 6, 2)
ACTIVATIONS = (
    "relu relu6 elu selu gelu leaky_relu softplus softsign softmax log_softmax tanh sigmoid hard_sigmoid hard_silu "
    "silu mish exponential linear celu glu hard_tanh hard_shrink soft_shrink squareplus sparse_plus sparsemax "
    "sparse_sigmoid tanh_shrink log_sigmoid"
)
INITIALIZERS = "zeros ones he_normal glorot_uniform lecun_normal orthogonal variance_scaling truncated_normal"
AT_RANDOM = {  # in training alone
    "RandomBrightness": 0.1, "RandomColorDegeneration": 0.1, "RandomContrast": 0.1, "RandomRotation": 0.1,
    "RandomSharpness": 0.1, "RandomZoom": 0.1, "RandomHue": 0.1, "RandomSaturation": 0.1, "RandomPosterization": 4,
}  # fmt: skip


def _window(rank: int) -> list[Any]:
    """Convolutions and pools over a line, an image or a room."""
    name = f"{rank}D"
    conv, turned = getattr(kl, f"Conv{name}"), getattr(kl, f"Conv{name}Transpose")
    layers = [conv(4, 3), conv(4, 3, padding="same", strides=2), conv(4, 2, dilation_rate=2, use_bias=False)]
    layers += [turned(4, 3), turned(4, 3, strides=2, padding="same")]
    for kind in ("MaxPooling", "AveragePooling", "AdaptiveMaxPooling", "AdaptiveAveragePooling"):
        layers.append(getattr(kl, f"{kind}{name}")(3))
    for kind in ("MaxPooling", "AveragePooling"):
        layers.append(getattr(kl, f"{kind}{name}")(3, strides=2, padding="same"))
    for kind in ("GlobalMaxPooling", "GlobalAveragePooling", "ZeroPadding", "Cropping", "UpSampling"):
        layers.append(getattr(kl, f"{kind}{name}")())
    return [*layers, getattr(kl, f"SpatialDropout{name}")(0.5)]


def _of_values() -> list[Any]:
    layers = [kl.Activation(name) for name in ACTIVATIONS.split()]
    layers += [kl.Dense(3, kernel_initializer=name) for name in INITIALIZERS.split()]
    layers += [kl.ReLU(1.0, 0.1, 0.2), kl.LeakyReLU(), kl.PReLU(), kl.ELU(), kl.Softmax(), kl.Identity()]
    layers += [kl.Dropout(0.5), kl.GaussianDropout(0.5), kl.AlphaDropout(0.5), kl.GaussianNoise(0.5)]
    layers += [kl.ActivityRegularization(), kl.UnitNormalization(), kl.RepeatVector(3), kl.Lambda(lambda x: 2 * x + 1)]
    layers += [kl.Normalization(mean=6 * [1.0], variance=6 * [2.0], invert=turned) for turned in (False, True)]
    layers += [kl.BatchNormalization(center=False, scale=False), kl.SpectralNormalization(kl.Dense(4))]
    bounds = [-0.5, 0.0, 0.5]
    return [*layers, kl.Discretization(bounds), kl.Discretization(bounds, output_mode="one_hot")]


def _of_steps() -> list[Any]:
    layers = [kl.SimpleRNN(3), kl.GRU(3), kl.LSTM(3), kl.LSTM(3, return_sequences=True, go_backwards=True)]
    layers += [kl.Bidirectional(kl.LSTM(3)), kl.LSTM(3, unroll=True), kl.LSTM(3, use_bias=False, activation="relu")]
    layers.append(kl.RNN(kl.StackedRNNCells([kl.LSTMCell(3), kl.GRUCell(2), kl.SimpleRNNCell(2)])))
    layers += [kl.TimeDistributed(kl.Dense(3)), kl.Dense(4, activation="gelu"), kl.Permute((2, 1)), kl.Softmax(axis=1)]
    layers += [kl.EinsumDense("abc,cd->abd", output_shape=(None, 7), bias_axes="d"), kl.Reshape((2, -1)), kl.Masking()]
    return [*layers, kl.LayerNormalization(), kl.LayerNormalization(axis=[1, 2]), kl.RMSNormalization()]


def _of_lines() -> list[Any]:
    more = [kl.Conv1D(4, 3, padding="causal"), kl.Conv1D(4, 3, groups=2), kl.DepthwiseConv1D(3)]
    return [*_window(1), *more, kl.SeparableConv1D(4, 3)]


def _of_images() -> list[Any]:
    layers = [kl.Conv2D(4, 3, groups=2), kl.DepthwiseConv2D(3, depth_multiplier=2), kl.SeparableConv2D(4, 3, strides=2)]
    layers += [kl.BatchNormalization(), kl.GroupNormalization(2), kl.PReLU(shared_axes=[1, 2]), kl.Flatten()]
    layers += [kl.UpSampling2D(2, interpolation=name) for name in ("bilinear", "bicubic")]
    layers += [kl.Resizing(5, 11, interpolation=name) for name in ("nearest", "bilinear")]
    layers += [kl.Resizing(5, 11, crop_to_aspect_ratio=True), kl.Resizing(5, 11, pad_to_aspect_ratio=True)]
    return [*_window(2), *layers, kl.CenterCrop(4, 5), kl.CenterCrop(10, 10), kl.Rescaling(1 / 255, offset=-1.0)]


def _of_photographs() -> list[Any]:
    layers = [getattr(kl, name)(factor) for name, factor in AT_RANDOM.items()]
    names = "AugMix AutoContrast CutMix MixUp RandAugment RandomColorJitter RandomElasticTransform RandomErasing"
    names += " RandomFlip RandomGaussianBlur RandomGrayscale RandomInvert RandomPerspective RandomShear Solarization"
    layers += [getattr(kl, name)() for name in names.split()]
    layers += [kl.RandomCrop(5, 5), kl.RandomTranslation(0.1, 0.1)]
    layers.append(kl.Pipeline([kl.Rescaling(0.5), kl.CenterCrop(4, 4)]))
    return [*layers, kl.ContrastLimitedAdaptiveHistogramEqualization()]


ALONE: Mapping[str, tuple[tuple[int, ...], Callable[[], list[Any]]]] = {
    "values": (VALUES, _of_values),
    "steps": (STEPS, _of_steps),
    "lines": (LINE, _of_lines),
    "images": (IMAGE, _of_images),
    "photographs": ((8, 8, 3), _of_photographs),
    "rooms": (ROOM, lambda: [*_window(3), kl.Conv3D(4, 1)]),
    "films": ((4, 6, 6, 2), lambda: [kl.ConvLSTM2D(2, 3, return_sequences=True, padding="same")]),
    "scans": ((4, 6, 2), lambda: [kl.ConvLSTM1D(2, 3)]),
    "moving_rooms": ((3, 4, 4, 4, 2), lambda: [kl.ConvLSTM3D(2, 3)]),
    "sounds": ((64, 1), lambda: [kl.STFTSpectrogram("log", frame_length=16, frame_step=8, fft_length=16)]),
}


def _named(outputs: list[Any]) -> dict[str, Any]:
    return {f"y{place}": value for place, value in enumerate(outputs)}


def _alone(group: str) -> keras.Model:
    shape, result = ALONE[group]
    image = keras.Input(shape, name="x")
    return keras.Model(image, _named([layer(image) for layer in result()]))


def pairs() -> keras.Model:
    """Two of a kind made into one, and attention of one to the other."""
    left, right = keras.Input(VALUES, name="left"), keras.Input(VALUES, name="right")
    ours, theirs = keras.Input(STEPS, name="ours"), keras.Input(STEPS, name="theirs")
    merging = [kl.Add(), kl.Subtract(), kl.Multiply(), kl.Average(), kl.Maximum(), kl.Minimum(), kl.Concatenate()]
    outputs = [layer([left, right]) for layer in [*merging, kl.Dot(axes=1)]]
    attending = [kl.Concatenate(axis=1), kl.Dot(axes=-1, normalize=True), kl.Attention(), kl.AdditiveAttention()]
    attending.append(kl.Attention(score_mode="concat", use_scale=True))
    outputs += [layer([ours, theirs]) for layer in attending]
    outputs += [layer(ours, theirs) for layer in (kl.MultiHeadAttention(2, 3), kl.GroupQueryAttention(3, 4, 2))]
    outputs.append(kl.MultiHeadAttention(2, 3)(ours, ours, use_causal_mask=True))
    return keras.Model([left, right, ours, theirs], _named(outputs))


def indices() -> keras.Model:
    """Integers that stand for something."""
    tokens, kind = keras.Input((5,), name="words", dtype="int32"), keras.Input((1,), name="kind", dtype="int32")
    outputs = [layer(tokens) for layer in (kl.Embedding(10, 4), kl.ReversibleEmbedding(10, 4))]
    outputs.append(kl.LSTM(3)(kl.Embedding(10, 4, mask_zero=True)(tokens)))
    outputs += [kl.CategoryEncoding(10, output_mode=mode)(tokens) for mode in ("multi_hot", "count")]
    return keras.Model([tokens, kind], _named([*outputs, kl.CategoryEncoding(5, output_mode="one_hot")(kind)]))


def _single(layer: Any, shape: tuple[int, ...], dtype: str = "float32") -> keras.Model:
    image = keras.Input(shape, name="x", dtype=dtype)
    return keras.Model(image, layer(image))


def _crossed() -> keras.Model:
    pair = [keras.Input((1,), name=name, dtype="int32") for name in "xy"]
    return keras.Model(pair, kl.HashedCrossing(5)(pair))


RIGHT: Mapping[str, Callable[[], keras.Model]] = {
    **{group: partial(_alone, group) for group in ALONE}, "pairs": pairs, "indices": indices,
}  # fmt: skip
REFUSED: Mapping[str, Callable[[], keras.Model]] = {
    "area": lambda: _single(kl.Resizing(5, 11, interpolation="area"), IMAGE),
    "cubic": lambda: _single(kl.Resizing(5, 11, interpolation="bicubic"), IMAGE),
    "crossed": _crossed,
    "half": lambda: _single(kl.Dense(3, dtype="mixed_bfloat16"), VALUES),
    "hashed": lambda: _single(kl.Hashing(4), (1,), "int32"),
    "lanczos": lambda: _single(kl.UpSampling2D(2, interpolation="lanczos3"), IMAGE),
    "looked_up": lambda: _single(kl.IntegerLookup(vocabulary=[1, 2, 5]), (3,), "int64"),
    "mel": lambda: _single(kl.MelSpectrogram(fft_length=32, sequence_stride=16, num_mel_bins=8), (64,)),
    "padded_output": lambda: _single(kl.Conv2DTranspose(4, 3, strides=2, output_padding=1), IMAGE),
    "texts": lambda: _single(kl.TextVectorization(vocabulary=["a", "b"]), (1,), "string"),
    "words": lambda: _single(kl.StringLookup(vocabulary=["a", "b"]), (3,), "string"),
}


def __getattr__(name: str) -> Callable[[], keras.Model]:
    try:
        return {**RIGHT, **REFUSED}[name]
    except KeyError:
        raise AttributeError(name) from None
