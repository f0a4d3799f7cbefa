"""Declaration of a folder of images for a model: how they become the values of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.scaffold.model_files import CONFIGURATION, PREPARATION, read_class_names, read_object
from orun.stages._data.images import list_class_folders, require_images
from orun.stages._data.source import IMAGENET_MEAN, IMAGENET_STD

RESAMPLING: Mapping[object, str] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # by Pillow's number
USUAL_SIDE = 224  # pixels
WRITE_FUNCTION = "write file.py:function that returns an orun.Dataset"


def declare_images(data: str, inputs: Sequence[InputFact], facts: ModelFacts, model_folder: Path) -> dict[str, Any]:
    """Return the preparation of images for the only input of a model, as the file beside it says.

    Raises:
        UsageError: when it is no folder of images, or the model takes none.
    """
    require_images(Path(data), data)
    if not inputs:  # they are not known
        return {}
    item = inputs[0]
    if len(inputs) > 1 or len(item.shape) != 4 or item.dtype not in ("float32", "uint8"):  # noqa: PLR2004 - n, c, h, w
        raise UsageError(
            f"{data} is a folder, of which orun reads images, and the model does not take one as float32 or uint8",
            why=f"it takes {'; '.join(map(str, inputs))}",
            hint=WRITE_FUNCTION,
        )
    channels_last = item.shape[1] not in (1, 3) and item.shape[3] in (1, 3)
    axes, channels = (item.shape[1:3], item.shape[3]) if channels_last else (item.shape[2:], item.shape[1])
    size = [axis if isinstance(axis, int) else facts.choose_size(axis, USUAL_SIDE) for axis in axes]
    preparation: dict[str, Any] = {"input": item.name, "size": size}
    if size != [USUAL_SIDE, USUAL_SIDE]:
        preparation["resize"] = None
    takes_pixels = item.dtype == "uint8" or (facts.form == "tensorflow" and channels_last)
    if channels == 1:
        preparation |= {"channels": "grey", **_declare_scaling(1.0 if takes_pixels else 1 / 255, [0.0], [1.0])}
    elif stated := read_object(model_folder / PREPARATION):
        preparation |= _read_stated(stated)
    elif takes_pixels:  # models of Keras scale pixels themselves
        preparation |= _declare_scaling(1.0, [0.0] * 3, [1.0] * 3)
    else:
        preparation |= _declare_scaling(1 / 255, IMAGENET_MEAN, IMAGENET_STD)
    if channels_last:
        preparation["layout"] = "nhwc"
    types = {} if item.dtype == "float32" else {"types": {item.name: item.dtype}}
    folders, _ = list_class_folders(Path(data))
    classes = read_class_names(model_folder / CONFIGURATION)
    named = {"classes": classes} if folders and {*folders} <= {*classes} else {}
    return {"images": preparation, **types, **named}


def _declare_scaling(scale: float, mean: Sequence[float], std: Sequence[float]) -> dict[str, Any]:
    """Return how pixels from 0 to 255 become values. It is written out, so that a user can check it."""
    return {"scale": scale, "mean": [*mean], "std": [*std]}


def _read_stated(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preparation of images by what a file of transformers states, with its defaults for the rest."""
    resize = stated.get("size")
    shorter = resize.get("shortest_edge") if isinstance(resize, dict) and stated.get("do_center_crop") else None
    scale = stated.get("rescale_factor", 1 / 255) if stated.get("do_rescale", True) else 1.0
    normalized = _declare_scaling(
        scale, stated.get("image_mean") or IMAGENET_MEAN, stated.get("image_std") or IMAGENET_STD
    )
    return {
        "resize": shorter,
        "resample": RESAMPLING.get(stated.get("resample"), "bilinear"),
        **(normalized if stated.get("do_normalize", True) else _declare_scaling(scale, [0.0] * 3, [1.0] * 3)),
    }
