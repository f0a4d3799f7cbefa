"""Advice on calling a PyTorch module that its declared inputs do not suit."""

from __future__ import annotations

import re
from collections.abc import Collection

import torch

PACKED_HINT = (
    "name the input that it takes; if it takes several in one, let the function of `model` return a module around it, "
    "whose forward has a parameter for each of `inputs`"
)
CHANNELS = re.compile(r"to have (\d+) channels")  # as PyTorch says how many a convolution takes
PACKED = re.compile(  # as it says that a tensor is no mapping or object of several
    r"invalid data type 'str'|must be a mapping, not Tensor|'Tensor' object has no attribute"
)


def advise_call(module: torch.nn.Module, dtypes: Collection[str], error: str) -> str:
    """Return what to do about a module that failed, called with tensors of these types; empty if that is not known."""
    if channels := CHANNELS.search(error):
        return (
            f"declare the axes as forward takes them, with the {channels[1]} channels as a number: "
            f"`[batch, {channels[1]}, ...]`"
        )
    return PACKED_HINT if PACKED.search(error) else _advise_dtype(module, dtypes)


def _advise_dtype(module: torch.nn.Module, dtypes: Collection[str]) -> str:
    """Return what to do about a module whose numbers are of another type than its inputs; empty where both agree."""
    weights = {str(item.dtype).removeprefix("torch.") for item in module.parameters() if item.is_floating_point()}
    inputs = {dtype for dtype in dtypes if getattr(torch, dtype).is_floating_point}
    if not inputs or len(weights) != 1 or weights <= inputs:
        return ""
    (dtype,) = weights
    remedy = "`return module.float()` in the function of `model`"
    if dtype == "float16":
        remedy = f"declare float16, or {remedy}"
    elif "float32" not in inputs:
        remedy = f"declare float32, and {remedy}"
    return f"the module's weights are {dtype}, and its inputs are declared as {', '.join(sorted(inputs))}: {remedy}"
