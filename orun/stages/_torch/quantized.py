"""PyTorch modules that round while they are trained: put to rest to be asked, and frozen to be exported.

What a module is made of is imported already: nothing here imports `torch.ao`, which PyTorch means to give up, unasked.
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
WHOLE = {torch.uint8: (0, 255), torch.int8: (-128, 127)}  # the first that holds a range is its type
TRACED = (*WHOLE.values(), (0, 127))  # ranges that the TorchScript exporter knows


class Rounding(nn.Module):  # type: ignore[misc]  # torch is not checked
    """What a FakeQuantize computes once its scales are known.

    Attributes:
        axis: of the channels that have scales of their own; None for one scale.
        scale, zero: a number each, or a tensor of one for each channel.
        low, high: least and largest integer.
        dtype: the type of the integers.
    """

    def __init__(self, fake: Any) -> None:
        super().__init__()
        self.axis = fake.ch_axis if fake.is_per_channel else None
        self.low, self.high = fake.activation_post_process.quant_min, fake.activation_post_process.quant_max
        fits = [name for name, (low, high) in WHOLE.items() if low <= self.low and self.high <= high]
        if not fits:
            raise ValueError(f"fake quantization from {self.low} to {self.high} does not fit into 8 bits")
        self.dtype = fits[0]
        if self.axis is None:
            self.scale, self.zero = float(fake.scale), int(fake.zero_point)
        else:
            self.register_buffer("scale", fake.scale.detach().float())
            self.register_buffer("zero", fake.zero_point.detach().to(torch.int32))


class Decomposed(Rounding):
    """In operators that PyTorch's new exporter knows; FakeQuantize's own it cannot follow."""

    def __init__(self, fake: Any) -> None:
        from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed

        super().__init__(fake)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """The value, rounded to steps of the scale."""
        known = torch.ops.quantized_decomposed
        how: tuple[Any, ...] = (self.low, self.high, self.dtype)
        if self.axis is not None:
            how = (self.scale, self.zero, self.axis, *how)
            return known.dequantize_per_channel(known.quantize_per_channel(value, *how), *how)
        how = (self.scale, self.zero, *how)
        integers = known.quantize_per_tensor(value, *how)
        if (self.low, self.high) != WHOLE[self.dtype]:  # which gets lost on the way to ONNX
            integers = integers.clamp(self.low, self.high)
        return known.dequantize_per_tensor(integers, *how)


class Traced(Rounding):
    """In the operators of FakeQuantize, which the TorchScript exporter knows for some ranges."""

    def __init__(self, fake: Any) -> None:
        super().__init__(fake)
        self.narrow = (self.low, self.high) not in TRACED
        if self.narrow:  # values are cut off before they are rounded
            for name, bound in (("least", self.low), ("most", self.high)):
                self.register_buffer(name, torch.as_tensor((bound - self.zero) * self.scale))
            self.low, self.high = WHOLE[self.dtype]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """The value, rounded to steps of the scale."""
        if self.narrow:
            value = torch.minimum(torch.maximum(value, self._along(self.least, value)), self._along(self.most, value))
        if self.axis is None:
            return torch.fake_quantize_per_tensor_affine(value, self.scale, self.zero, self.low, self.high)
        return torch.fake_quantize_per_channel_affine(value, self.scale, self.zero, self.axis, self.low, self.high)

    def _along(self, bound: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """The bound of each channel, to be compared with a value."""
        shape = [1] * value.dim()
        if self.axis is not None:
            shape[self.axis] = -1
        return bound.reshape(shape)


def at_rest(module: nn.Module) -> nn.Module:
    """The module in evaluation mode, its ranges as training left them: observers would learn from any input."""
    for _, fake in fakes(module):
        fake.disable_observer()
    with suppress(NotImplementedError):  # what `torch.export` made stays in the mode that it was exported in
        module.eval()
    return module


def frozen(module: nn.Module, exporter: str) -> nn.Module:
    """The module, changed in place, with fixed rounding where it learned ranges, and its batch normalisations folded.

    `FusedMovingAvgObsFakeQuantize`, which PyTorch's defaults use, has no counterpart in ONNX; and a convolution that is
    trained with its batch normalisation (`ConvBn2d` and such of `torch.ao`) divides its result by what it has
    multiplied its weights with, so that no runtime could compute it in integers.
    """
    plain = _without_norm()
    for part in [*module.modules()]:
        if type(part) in plain:
            _fold(part, plain[type(part)])
    kind = Traced if exporter == "torchscript" else Decomposed
    for name, fake in fakes(module):
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, kind(fake) if fake.fake_quant_enabled[0] else nn.Identity())
    return module


def fakes(module: nn.Module) -> list[tuple[str, Any]]:
    """The modules of fake quantization by name, of PyTorch and of torchao."""
    kinds = tuple(sys.modules[name].FakeQuantizeBase for name in FAKES if name in sys.modules)
    return [(name, part) for name, part in module.named_modules(remove_duplicate=False) if isinstance(part, kinds)]


def _without_norm() -> Mapping[type, type]:
    """For each convolution that is trained with its batch normalisation the same one without."""
    fused, single = (sys.modules.get(name) for name in ("torch.ao.nn.intrinsic.qat", "torch.ao.nn.qat"))
    if fused is None or single is None:
        return {}
    return {
        getattr(fused, f"ConvBn{rectified}{axes}d"): getattr(fused if rectified else single, f"Conv{rectified}{axes}d")
        for rectified in ("", "ReLU")
        for axes in (1, 2, 3)
    }


def _fold(trained: Any, plain: type) -> None:
    """Put a convolution's batch normalisation into its weights, which are rounded then."""
    norm = trained.bn
    trained.weight, trained.bias = fuse_conv_bn_weights(
        trained.weight, trained.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    del trained.bn
    trained.__class__ = plain  # in place: a hook on it rounds its result
