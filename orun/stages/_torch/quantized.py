"""Modules of fake quantization: stopped before inference, frozen before export.

The classes of a module's parts are imported already. So nothing here imports `torch.ao`, which PyTorch will remove, of
its own accord.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.nn.utils import fuse_conv_bn_weights

FAKES = ("torch.ao.quantization.fake_quantize", "torchao.quantization.pt2e.fake_quantize")  # each has its own base
TYPE_RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}  # the first that includes a range is its type
TRACED = (*TYPE_RANGES.values(), (0, 127))  # ranges that the TorchScript exporter knows


class Rounding(nn.Module):  # type: ignore[misc]  # torch is not checked
    """FakeQuantize with fixed scales.

    Attributes:
        axis: of the channels that have scales of their own; None for one scale.
        scale, zero: a number each, or a tensor of a number per channel.
        low, high: least and largest integer.
        dtype: the type of the integers.
    """

    def __init__(self, fake: Any) -> None:
        super().__init__()
        self.axis = fake.ch_axis if fake.is_per_channel else None
        self.low, self.high = fake.activation_post_process.quant_min, fake.activation_post_process.quant_max
        fits = [name for name, (low, high) in TYPE_RANGES.items() if low <= self.low and self.high <= high]
        if not fits:
            raise ValueError(f"fake quantization from {self.low} to {self.high} does not fit into 8 bits")
        self.dtype = fits[0]
        if self.axis is None:
            self.scale, self.zero = float(fake.scale), int(fake.zero_point)
        else:
            self.register_buffer("scale", fake.scale.detach().float())
            self.register_buffer("zero", fake.zero_point.detach().to(torch.int32))


class Decomposed(Rounding):
    """Rounding in operators that PyTorch's new exporter knows; it cannot export those of FakeQuantize."""

    def __init__(self, fake: Any) -> None:
        from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed

        super().__init__(fake)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Round a value to steps of the scale."""
        operators = torch.ops.quantized_decomposed
        grid: tuple[Any, ...] = (self.low, self.high, self.dtype)
        if self.axis is not None:
            grid = (self.scale, self.zero, self.axis, *grid)
            return operators.dequantize_per_channel(operators.quantize_per_channel(value, *grid), *grid)
        grid = (self.scale, self.zero, *grid)
        integers = operators.quantize_per_tensor(value, *grid)
        if (self.low, self.high) != TYPE_RANGES[self.dtype]:  # the exporter drops the range
            integers = integers.clamp(self.low, self.high)
        return operators.dequantize_per_tensor(integers, *grid)


class Traced(Rounding):
    """Rounding in the operators of FakeQuantize, which the TorchScript exporter knows for some ranges."""

    def __init__(self, fake: Any) -> None:
        super().__init__(fake)
        self.narrow = (self.low, self.high) not in TRACED
        if self.narrow:  # clamp values before they are rounded
            for name, bound in (("least", self.low), ("most", self.high)):
                self.register_buffer(name, torch.as_tensor((bound - self.zero) * self.scale))
            self.low, self.high = TYPE_RANGES[self.dtype]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Round a value to steps of the scale."""
        if self.narrow:
            value = torch.minimum(
                torch.maximum(value, self._broadcast_channels(self.least, value)),
                self._broadcast_channels(self.most, value),
            )
        if self.axis is None:
            return torch.fake_quantize_per_tensor_affine(value, self.scale, self.zero, self.low, self.high)
        return torch.fake_quantize_per_channel_affine(value, self.scale, self.zero, self.axis, self.low, self.high)

    def _broadcast_channels(self, bound: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return the bound of each channel in a shape that broadcasts with a value."""
        shape = [1] * value.dim()
        if self.axis is not None:
            shape[self.axis] = -1
        return bound.reshape(shape)


def stop_training(module: nn.Module) -> nn.Module:
    """Put the module into evaluation mode, and stop its observers, which would learn from any input."""
    for _, fake in find_fakes(module):
        fake.disable_observer()
    with suppress(NotImplementedError):  # an ExportedProgram keeps the mode that it was exported in
        module.eval()
    return module


def freeze(module: nn.Module, exporter: str) -> nn.Module:
    """Fix the learned ranges of rounding and fold batch normalizations, in place; return the module.

    ONNX has no counterpart of `FusedMovingAvgObsFakeQuantize`, which PyTorch's defaults use. A convolution trained with
    its batch normalization (`ConvBn2d` of `torch.ao`) scales its weights and divides its result by that scale, so that
    no runtime could compute it in integers.
    """
    plain = _list_plain_classes()
    for part in [*module.modules()]:
        if type(part) in plain:
            _fold(part, plain[type(part)])
    kind = Traced if exporter == "torchscript" else Decomposed
    for name, fake in find_fakes(module):
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, kind(fake) if fake.fake_quant_enabled[0] else nn.Identity())
    return module


def find_fakes(module: nn.Module) -> list[tuple[str, Any]]:
    """Return the modules of fake quantization by name, of PyTorch and of torchao."""
    kinds = tuple(sys.modules[name].FakeQuantizeBase for name in FAKES if name in sys.modules)
    return [(name, part) for name, part in module.named_modules(remove_duplicate=False) if isinstance(part, kinds)]


def _list_plain_classes() -> Mapping[type, type]:
    """Return, for each class of convolution with a batch normalization, the class without."""
    fused, single = (sys.modules.get(name) for name in ("torch.ao.nn.intrinsic.qat", "torch.ao.nn.qat"))
    if fused is None or single is None:
        return {}
    return {
        getattr(fused, f"ConvBn{rectified}{axes}d"): getattr(fused if rectified else single, f"Conv{rectified}{axes}d")
        for rectified in ("", "ReLU")
        for axes in (1, 2, 3)
    }


def _fold(trained: Any, plain: type) -> None:
    """Fold a convolution's batch normalization into its weights before they are rounded."""
    norm = trained.bn
    trained.weight, trained.bias = fuse_conv_bn_weights(
        trained.weight, trained.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    del trained.bn
    trained.__class__ = plain  # in place, as a hook on it rounds its result
