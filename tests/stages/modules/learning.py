"""Modules that learn real digits in a second, and what goes wrong."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.ao.quantization import get_default_qat_qconfig_mapping
from torch.ao.quantization.quantize_fx import prepare_qat_fx
from torch.nn.utils import prune

from orun.measure.dataset import Dataset

TRAINED_ON = 1200  # images; the others are of other writers


def teacher() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))


def student() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def eleven() -> nn.Module:
    return nn.Linear(64, 11)


def value() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))


def number() -> int:
    return 3


def mask(module: nn.Module) -> nn.Module:
    layers = [(part, "weight") for part in module if isinstance(part, nn.Linear)]
    prune.global_unstructured(layers, prune.L1Unstructured, amount=0.9)
    return module


def masked() -> nn.Module:
    return mask(teacher())


def rounding(module: nn.Module) -> nn.Module:
    return prepare_qat_fx(module.train(), get_default_qat_qconfig_mapping("x86"), (torch.zeros(2, 64),))


def rounding_teacher() -> nn.Module:
    return rounding(teacher())


def nothing(module: nn.Module) -> None:
    del module


def training() -> Dataset:
    return _digits(slice(TRAINED_ON))


def held_out() -> Dataset:
    return _digits(slice(TRAINED_ON, None))


def unlabelled() -> Dataset:
    return Dataset(training().inputs)


def halves() -> Dataset:
    dataset = training()
    assert dataset.labels is not None
    return Dataset(dataset.inputs, dataset.labels / 2)


def huge() -> Dataset:
    dataset = training()
    return Dataset({"pixels": np.asarray(dataset.inputs["pixels"]) * np.float32(1e30)}, dataset.labels)


def _digits(part: slice) -> Dataset:
    pixels, digits = load_digits(return_X_y=True)
    return Dataset({"pixels": (pixels[part] / 16).astype(np.float32)}, digits[part])
