"""Web page of a release: a form for the inputs of the model, and the files of onnxruntime-web that run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.serialization import Record
from orun.stages.contract import MODEL, Context

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    from orun.measure.web.package import WebPackage
    from orun.stages._graph.feeds import Input

PAGE = ("index.html", "page.css", "page.mjs")
DESCRIPTION, RUNTIME = "page.json", "ort"
HEADERS = "_headers"  # read by Cloudflare Pages and Netlify
CHANNELS = (1, 3, 4)  # grey, colours, colours with opacity
PICTURE_AXES = 4
BRIGHTEST = 255


class Pictures(Record, frozen=True):
    """Scale of pictures: an input gets `(pixel / 255 - mean) / std`; the values of the input's domain when empty."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def write_page(
    context: Context,
    package: WebPackage,
    model: ModelProto,
    feed: Mapping[str, NDArray[Any]],
    title: str,
    pictures: Pictures,
) -> None:
    """Write the page beside the model in the output folder, with an example for each input.

    Raises:
        StageFailed: if a file of the page has the name of another file, or the scale of pictures fits no input.
    """
    from orun.measure.web import session
    from orun.measure.web.static_server import ISOLATION
    from orun.measure.web.tensors import TYPES, encode_tensor
    from orun.stages._graph.io import list_external_files
    from orun.stages._graph.signature import build_inputs

    inputs = [_describe(item, TYPES[item.dtype], pictures) for item in build_inputs(model)]
    if (pictures.mean or pictures.std) and not any("image" in item for item in inputs):
        raise context.failed(
            "`mean` and `std` scale pictures, and no input of the model takes one with as many channels",
            why="a picture has the shape [batch, channels, height, width] or [batch, height, width, channels]",
        )
    document = {
        "title": title,
        "about": f"onnxruntime-web {package.version}",
        "runtime": f"./{RUNTIME}/{package.browser_module}",
        "model": MODEL,
        "externalData": list(list_external_files(model)),
        "inputs": inputs,
        "outputs": [output.name for output in model.graph.output],
        "example": [encode_tensor(feed[item["name"]]) for item in inputs],
    }
    here = Path(__file__).parent
    sources = {name: here / name for name in PAGE}
    sources[session.TENSORS] = session.HERE / session.TENSORS
    sources |= {f"{RUNTIME}/{name}": package.scripts / name for name in package.browser_files}
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    texts = {
        DESCRIPTION: text,
        HEADERS: "\n  ".join(["/*", *(f"{name}: {value}" for name, value in ISOLATION.items())]),
    }
    _require_free(context, (*sources, *texts))
    (context.output / RUNTIME).mkdir()
    for name, path in sources.items():
        shutil.copyfile(path, context.output / name)
    for name, content in texts.items():
        (context.output / name).write_text(f"{content}\n", "utf-8")


def _require_free(context: Context, names: Sequence[str]) -> None:
    if occupied := [name for name in names if (context.output / name.partition("/")[0]).exists()]:
        raise context.failed(f"an input has a file named {occupied[0]}, a name that the page needs itself")


def _describe(item: Input, javascript: str, pictures: Pictures) -> dict[str, Any]:
    """Return an input as `page.json` has it."""
    described: dict[str, Any] = {"name": item.name, "type": javascript, "shape": list(item.shape)}
    channel = _find_channel_axis(item)
    if javascript == "string":
        return described | {"control": "text"}
    if channel is None or not _fits(pictures, int(item.shape[channel])):
        return described | {"control": "numbers"}
    height, width = (2, 3) if channel == 1 else (1, 2)
    scale, offset = _compute_scale(item, pictures, int(item.shape[channel]))
    image = {"channel": channel, "height": height, "width": width, "scale": scale, "offset": offset}
    return described | {"control": "image", "image": image}


def _find_channel_axis(item: Input) -> int | None:
    """Return the axis of the channels if the input takes pictures; None otherwise."""
    if len(item.shape) != PICTURE_AXES or not (item.dtype == "uint8" or item.dtype.startswith("float")):
        return None
    return next((axis for axis in (1, 3) if item.shape[axis] in CHANNELS), None)


def _fits(pictures: Pictures, channels: int) -> bool:
    return all(len(values) in (0, channels) for values in (pictures.mean, pictures.std))


def _compute_scale(item: Input, pictures: Pictures, channels: int) -> tuple[list[float], list[float]]:
    """Return factor and summand of each channel, from a pixel of 0 to 255 to a value of the input."""
    if pictures.mean or pictures.std:
        mean, std = pictures.mean or (0.0,) * channels, pictures.std or (1.0,) * channels
        return [1 / BRIGHTEST / each for each in std], [-low / each for low, each in zip(mean, std, strict=True)]
    if item.dtype == "uint8":
        return [1.0] * channels, [0.0] * channels
    low, high = (0.0 if item.low is None else item.low), (1.0 if item.high is None else item.high)
    return [(high - low) / BRIGHTEST] * channels, [low] * channels
