"""A CNN of PyTorch that learns real digits while it rounds, as PyTorch's own tools prepare it."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.ao import quantization
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed
from torch.ao.quantization.quantize_fx import prepare_qat_fx
from torch.nn import functional

from orun.measure.dataset import Dataset

TRAINED_ON = 1200  # images; the others are of other writers
BACKEND = "x86"  # its defaults: fused fake quantization, activations in 7 bits


def network() -> nn.Sequential:
    """Untrained: images `[batch, 1, 8, 8]` to the logits of ten digits."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


class Between(nn.Module):  # type: ignore[misc]  # torch is not checked
    """A network between the stubs of eager quantization."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.body, self.dequant = quantization.QuantStub(), network(), quantization.DeQuantStub()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Images `[batch, 1, 8, 8]`."""
        return self.dequant(self.body(self.quant(image)))


def prepared() -> nn.Module:
    """Untrained, by `prepare_qat`."""
    model = quantization.fuse_modules_qat(
        Between().train(), [[f"body.{n}" for n in part] for part in (range(3), range(3, 6))]
    )
    model.qconfig = quantization.get_default_qat_qconfig(BACKEND)
    return quantization.prepare_qat(model)


def eager() -> nn.Module:
    """By `prepare_qat`; its observers and its training mode are left on."""
    return _learned(prepared())


def traced() -> nn.Module:
    """By `prepare_qat_fx`."""
    mapping = quantization.get_default_qat_qconfig_mapping(BACKEND)
    return _learned(prepare_qat_fx(network().train(), mapping, (torch.zeros(2, 1, 8, 8),)))


def converted() -> nn.Module:
    """With PyTorch's own integers."""
    return quantization.convert(eager().eval())


def converted_untrained() -> nn.Module:
    """With PyTorch's own integers, after one batch of noise."""
    model = prepared()
    model(torch.rand(2, 1, 8, 8))
    return quantization.convert(model.eval())


class Decomposed(nn.Module):  # type: ignore[misc]
    """A product between roundings in the operators of `torch.export`'s quantization."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.linspace(-127, 127, 32).round().reshape(4, 8)
        self.register_buffer("weight", weight.to(torch.int8))
        self.register_buffer("scales", torch.tensor([0.01, 0.02, 0.03, 0.04]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Values `[batch, 8]`."""
        known = torch.ops.quantized_decomposed
        fed, result = (0.02, 128, 0, 255, torch.uint8), (0.5, 128, 0, 255, torch.uint8)
        weight = known.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        x = known.dequantize_per_tensor(known.quantize_per_tensor(x, *fed), *fed)
        y = functional.linear(x, weight)
        return known.dequantize_per_tensor(known.quantize_per_tensor(y, *result), *result)


def exported() -> nn.Module:
    """What `torch.export` makes, as `convert_pt2e` leaves it: it refuses to be put into evaluation mode."""
    axes = ({0: torch.export.Dim("batch")},)
    return torch.export.export(Decomposed(), (torch.zeros(3, 8),), dynamic_shapes=axes).module()


def held_out() -> Dataset:
    """The 597 images that the network has not learned from."""
    images, digits = _digits()
    return Dataset({"image": images[TRAINED_ON:].numpy()}, digits[TRAINED_ON:].numpy())


def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    digits = load_digits()
    return torch.from_numpy((digits.images / 16).astype(np.float32))[:, None], torch.from_numpy(digits.target)


def _learned(model: nn.Module) -> nn.Module:
    torch.set_num_threads(1)
    images, digits = (values[:TRAINED_ON] for values in _digits())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(4):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[batch]), digits[batch]).backward()
            optimizer.step()
    return model
