"""Networks for real digits: a large one, a small one, and the large one pruned and rounded while it learns."""

from __future__ import annotations

import digits_torch  # type: ignore[import-not-found]  # beside this file
import torch
from torch import nn
from torch.ao.quantization import get_default_qat_qconfig_mapping
from torch.ao.quantization.quantize_fx import prepare_qat_fx
from torch.nn.utils import prune

from orun import Dataset


def teacher() -> nn.Module:
    """A network of 38,000 numbers, not trained."""
    return nn.Sequential(
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


def student() -> nn.Module:
    """A network of a quarter of that, not trained."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 28),
        nn.ReLU(),
        nn.Linear(28, 10),
    )


def mask(module: nn.Module) -> nn.Module:
    """Mask nine of ten weights of all convolutions and products, the smallest of all layers together."""
    layers = [(part, "weight") for part in module if isinstance(part, nn.Conv2d | nn.Linear)]
    prune.global_unstructured(layers, prune.L1Unstructured, amount=0.9)
    return module


def masked_teacher() -> nn.Module:
    """The large network with masks, as weights trained with them need it."""
    return mask(teacher())


def rounding(module: nn.Module) -> nn.Module:
    """Round weights and activations to 8 bits in every run, also while it learns, as PyTorch's tools prepare it."""
    mapping = get_default_qat_qconfig_mapping("x86")
    prepared: nn.Module = prepare_qat_fx(module.train(), mapping, (torch.zeros(2, 1, 8, 8),))
    return prepared


def rounding_teacher() -> nn.Module:
    """The large network with rounding."""
    return rounding(teacher())


def training() -> Dataset:
    """The 1,200 images to learn from, with their digits."""
    dataset: Dataset = digits_torch.calibration()
    return dataset


def held_out() -> Dataset:
    """The 597 images of other writers."""
    dataset: Dataset = digits_torch.held_out()
    return dataset
