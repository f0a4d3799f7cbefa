"""Tensors as JSON, for JavaScript: type, sizes, and the bytes as base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Types that onnxruntime-web takes and returns, by NumPy's names; texts are objects.
TYPES: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("float16", "float32", "float64", "bool"),
            *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        )
    },
    "object": "string",
}


def encode_feed(feed: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Return arrays by name as plain data."""
    return {name: encode_tensor(value) for name, value in feed.items()}


def encode_tensor(value: Array) -> dict[str, Any]:
    """Return an array as plain data.

    Raises:
        KeyError: if onnxruntime-web has no such type.
    """
    name = TYPES[value.dtype.name if value.dtype.kind not in "US" else "object"]
    if name == "string":
        return {"type": name, "dims": list(value.shape), "data": [str(item) for item in value.ravel()]}
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
    return {"type": name, "dims": list(value.shape), "data": data}


def decode_tensor(tensor: Mapping[str, Any]) -> Array:
    """Return the array of plain data."""
    if tensor["type"] == "string":
        return np.array(tensor["data"], dtype=object).reshape(tensor["dims"])
    values = np.frombuffer(base64.b64decode(tensor["data"]), dtype=tensor["type"])
    return values.reshape(tensor["dims"])
