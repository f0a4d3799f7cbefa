"""A small CNN of PyTorch that is trained when its pipeline runs."""

from __future__ import annotations

import digits  # type: ignore[import-not-found]  # beside this file
import numpy as np
import torch
from torch import nn
from torch.ao.quantization import (
    FakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    disable_observer,
)
from torch.nn import functional
from torch.nn.utils import fuse_conv_bn_eval
from torch.nn.utils.parametrize import register_parametrization

from orun import Dataset

EPOCHS, FINE_TUNING = 8, 2
BATCH = 64


def trained() -> nn.Module:
    """The network, trained: images `[batch, 1, 8, 8]` in 0..1 to the logits of ten digits.

    Its weights follow the seed of the pipeline, which the stage has set.
    """
    torch.set_num_threads(1)  # sums are the same however many cores there are
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    learn(model, EPOCHS, 3e-3)
    return model.eval()


def trained_to_be_quantized() -> nn.Module:
    """The same network, trained further while its weights and activations are rounded as int8 will round them."""
    layers = list(trained())
    pooled = activations()  # twice: ONNX Runtime carries integers through MaxPool, not through Flatten
    model = nn.Sequential(
        activations(),
        fuse_conv_bn_eval(layers[0], layers[1]),
        nn.ReLU(),
        activations(),
        fuse_conv_bn_eval(layers[3], layers[4]),
        nn.ReLU(),
        pooled,
        nn.MaxPool2d(2),
        nn.Flatten(),
        pooled,
        layers[8],
        nn.ReLU(),
        activations(),
        layers[10],
        activations(),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            register_parametrization(layer, "weight", weights())
    learn(model, FINE_TUNING, 1e-3)
    return model.apply(disable_observer).eval()


def activations() -> FakeQuantize:
    """Rounds to uint8, in the range that training shows."""
    return FakeQuantize(
        MovingAverageMinMaxObserver, 0, 255, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False
    )


def weights() -> FakeQuantize:
    """Rounds to int8, each output channel by a scale of its own, with zero in the middle.

    To 7 of the 8 bits, as PyTorch's own choice for x86-64: processors without VNNI cut sums of products of 8 bits off.
    """
    return FakeQuantize(
        MovingAveragePerChannelMinMaxObserver,
        -64,
        63,
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
    )


def learn(model: nn.Module, epochs: int, rate: float) -> None:
    """Train a model on the images that it may learn from."""
    pixels, labels = (torch.from_numpy(array) for array in digits.training())
    images = pixels.reshape(-1, 1, 8, 8)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def held_out() -> Dataset:
    """The 597 images that the network has not learned from, as `[1, 8, 8]`."""
    return _channels_first(digits.images())


def calibration() -> Dataset:
    """Images of the training set, for the ranges of static quantization."""
    return _channels_first(digits.calibration())


def _channels_first(dataset: Dataset) -> Dataset:
    return Dataset({"image": np.reshape(dataset.inputs["image"], (-1, 1, 8, 8))}, dataset.labels)
