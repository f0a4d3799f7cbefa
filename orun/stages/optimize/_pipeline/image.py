"""Images from the bytes of a file: decoded, resized, cropped and normalized as `images` of a dataset is by Pillow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from orun.measure.extension_operators import DOMAIN
from orun.stages._data.source import Images
from orun.stages._graph.signature import name_axes
from orun.stages.optimize._pipeline.draft import Draft, Nodes

BYTES = "image_bytes"  # name of the new input
SMOOTHING = 18  # operator set from which Resize smooths as Pillow does
# As Pillow resizes: pixels beyond the border have no weight, and the others have more. ONNX Runtime does so for
# `linear`, too.
RESIZE: Mapping[str, Mapping[str, Any]] = {
    "bilinear": {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    "bicubic": {"mode": "cubic", "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5},
    "nearest": {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
}
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
# Pillow's weights of red, green and blue in grey, in 65536ths, and half of one to round (ITU-R BT.601).
GREY, HALF, UNIT = (19595, 38470, 7471), 0x8000, 0x10000


def add_decoding(draft: Draft, images: Images) -> None:
    """Let the model take the bytes of an image file, `[1, bytes]`, in the place of an input.

    Raises:
        StageFailed: when the preparation has no operators, or does not fit the input.
    """
    pixels = draft.require_input(images.input)
    element = pixels.type.tensor_type.elem_type
    _require_supported(draft, images, element)
    nodes = draft.begin_step(BYTES, SMOOTHING)
    content = nodes.add("Squeeze", BYTES, nodes.add_constant(_to_integers(0)))
    # Its default, BGR, swaps the channels of a grey JPEG, too, which has only one: it writes where it must not.
    decoded = nodes.add("DecodeImage", content, domain=DOMAIN, color_space="rgb")
    colours = nodes.add(
        "Expand", decoded, nodes.add_constant(_to_integers(1, 1, 3))
    )  # [h, w, rgb]; four of CMYK do not fit
    channels = _move_channels_first(nodes, colours, grey=images.channels == "grey")
    size = nodes.add("Shape", channels, start=2)
    resized = _resize(nodes, channels, size, images)
    scaled = _normalize(nodes, resized, images)
    if images.layout == "nhwc":
        scaled = nodes.add("Transpose", scaled, perm=[0, 2, 3, 1])
    nodes.add("Cast", scaled, outputs=[images.input], to=element)
    new = helper.make_tensor_value_info(BYTES, TensorProto.UINT8, [1, "bytes"])
    draft.replace_inputs([images.input], new, nodes)


def _require_supported(draft: Draft, images: Images, element: int) -> None:
    if images.resample not in RESIZE:
        raise draft.context.failed(
            f"`resample: {images.resample}` has no operator",
            hint=f"take one of {', '.join(RESIZE)}, and prepare the data of the training in the same way",
        )
    if element not in FLOATS:
        name = TensorProto.DataType.Name(element).lower()
        raise draft.context.failed(f"input {images.input!r} is of {name}, and prepared images are floats")
    channels = 3 if images.channels == "rgb" else 1
    wanted = [1, channels, *images.size] if images.layout == "nchw" else [1, *images.size, channels]
    declared = name_axes(draft.require_input(images.input))
    fits = len(declared) == len(wanted) and all(
        isinstance(size, str) or size == needed for size, needed in zip(declared, wanted, strict=True)
    )
    if not fits:
        shown = ", ".join("?" if isinstance(size, str) else str(size) for size in declared)
        raise draft.context.failed(
            f"input {images.input!r} has the shape [{shown}], and prepared images have {wanted}",
            hint="correct `size`, `channels` or `layout`",
        )


def _move_channels_first(nodes: Nodes, colours: str, *, grey: bool) -> str:
    """Return the channels first, `[1, c, h, w]`: red, green and blue, or one of grey."""
    if grey:
        weights = nodes.add_constant(np.array(GREY, np.int32))
        weighted = nodes.add("Mul", nodes.add("Cast", colours, to=TensorProto.INT32), weights)
        total = nodes.add("ReduceSum", weighted, nodes.add_constant(_to_integers(2)), keepdims=1)
        rounded = nodes.add("Add", total, nodes.add_constant(np.array(HALF, np.int32)))
        quotient = nodes.add("Div", rounded, nodes.add_constant(np.array(UNIT, np.int32)))
        colours = nodes.add("Cast", quotient, to=TensorProto.UINT8)
    return nodes.add("Unsqueeze", nodes.add("Transpose", colours, perm=[2, 0, 1]), nodes.add_constant(_to_integers(0)))


def _resize(nodes: Nodes, channels: str, size: str, images: Images) -> str:
    """Resize to `size` at once, or the shorter side to `resize` and cut the centre out, as Pillow's images are."""
    wanted = nodes.add_constant(_to_integers(*images.size))
    attributes = {**RESIZE[images.resample], "axes": [2, 3]}
    if images.resize is None:
        return nodes.add("Resize", channels, "", "", wanted, **attributes)
    exact = nodes.add("Cast", size, to=TensorProto.DOUBLE)
    shorter = nodes.add("ReduceMin", exact, keepdims=1)
    longer = nodes.add("Div", nodes.add("Mul", exact, nodes.add_constant(np.array(images.resize, np.float64))), shorter)
    lengths = nodes.add("Cast", longer, to=TensorProto.INT64)
    resized = nodes.add("Resize", channels, "", "", lengths, **attributes)
    rest = nodes.add("Cast", nodes.add("Sub", lengths, wanted), to=TensorProto.DOUBLE)
    half = nodes.add("Round", nodes.add("Div", rest, nodes.add_constant(np.array(2, np.float64))))
    start = nodes.add("Cast", half, to=TensorProto.INT64)
    return nodes.add("Slice", resized, start, nodes.add("Add", start, wanted), nodes.add_constant(_to_integers(2, 3)))


def _normalize(nodes: Nodes, pixels: str, images: Images) -> str:
    floats = nodes.add("Cast", pixels, to=TensorProto.FLOAT)
    scaled = nodes.add("Mul", floats, nodes.add_constant(np.array(images.scale, np.float32)))
    mean, std = (np.array(values, np.float32).reshape(-1, 1, 1) for values in (images.mean, images.std))
    return nodes.add("Div", nodes.add("Sub", scaled, nodes.add_constant(mean)), nodes.add_constant(std))


def _to_integers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)
