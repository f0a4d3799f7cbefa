"""Reader of a folder of images: resized, cropped and normalised as in the training of vision models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Array, Dataset
from orun.stages._data.coco import read_annotations
from orun.stages._data.packages import need
from orun.stages._data.source import Images, Source

if TYPE_CHECKING:
    from PIL.Image import Image

ORIENTATION, UPRIGHT = 0x0112, 4  # EXIF tag; its largest value that keeps width and height
SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})


def read_images(folder: Path, name: str, how: Images | None) -> Dataset:
    """Read every image below a folder, in order of paths.

    If images are in subfolders, each subfolder is a class, and labels number the subfolders in order of names.

    Raises:
        UsageError: when there is no image, one cannot be read, or the parameters contradict one another.
    """
    how = _preparation(name, how)
    files = list_images(folder, name, how)
    pixels = np.stack([prepare_image(path, f"{name}/{path.relative_to(folder).as_posix()}", how) for path in files])
    return Dataset({how.input: pixels}, _labels(folder, name, files))


def read_annotated(root: Path, name: str, source: Source) -> Dataset:
    """Read the images that a COCO file lists, in its order. Labels are their boxes, scaled to the input.

    Raises:
        UsageError: when the file or an image is missing or wrong, or the parameters contradict one another.
    """
    how, folder = _preparation(name, source.images), root / source.path
    _check(name, how)
    if how.resize is not None:
        why = f"`resize: {how.resize}` cuts the middle out of an image, and boxes with it"
        raise UsageError(f"{name}: with `annotations`, images are resized whole", why=why, hint="say `resize: null`")
    annotations = read_annotations(root / str(source.annotations), str(source.annotations))
    for image in annotations.images:
        _require_size(folder / image.name, f"{name}/{image.name}", image.size, annotations.title)
    labels = annotations.labels(how.size, source.classes)
    pixels = [prepare_image(folder / image.name, f"{name}/{image.name}", how) for image in annotations.images]
    return Dataset({how.input: np.stack(pixels)}, labels)


def _preparation(name: str, how: Images | None) -> Images:
    need("PIL", f"reading the images in {name}", "pillow")
    if how is None:
        hint = f"say it: {{path: {name}, images: {{input: pixel_values}}}}"
        raise UsageError(f"{name} is a folder, and `images` does not say how its images become an input", hint=hint)
    return how


def _require_size(path: Path, name: str, size: tuple[float, float], title: str) -> None:
    """Refuse an image that has another size than its annotations say: boxes would lie elsewhere."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as opened:
            turned = opened.getexif().get(ORIENTATION, 1) > UPRIGHT
            actual = opened.size[::-1] if turned else opened.size
    except (UnidentifiedImageError, OSError) as error:
        raise UsageError(f"{name}, of which {title} tells, cannot be read as an image", why=str(error)) from error
    if actual != size:
        wanted = f"{size[0]:g} x {size[1]:g}"
        raise UsageError(f"{name} is {actual[0]} x {actual[1]}, and {title} says {wanted}")


def list_images(folder: Path, name: str, how: Images) -> list[Path]:
    """Return every image below a folder, in order of paths.

    Raises:
        UsageError: when there is none, or the parameters contradict one another.
    """
    _check(name, how)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not files:
        raise UsageError(f"{name} has no images", why=f"none of its files ends in {', '.join(sorted(SUFFIXES))}")
    return files


def _labels(folder: Path, name: str, files: list[Path]) -> Array | None:
    parents = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in files]
    classes = sorted(set(parents))
    if classes == [""]:
        return None
    if "" in classes:
        unlabelled = next(path.name for path, parent in zip(files, parents, strict=True) if not parent)
        message = f"{name} has images in class folders and outside of them"
        raise UsageError(message, why=f"{unlabelled} has no class")
    return np.array([classes.index(parent) for parent in parents])


def _check(name: str, how: Images) -> None:
    channels = 3 if how.channels == "rgb" else 1
    if len(how.size) != 2:  # noqa: PLR2004 - height and width
        raise UsageError(f"{name}: `size` must be a height and a width", why=f"it is {how.size}")
    if min(how.size) < 1:
        raise UsageError(f"{name}: `size` must be of at least one pixel each way", why=f"it is {how.size}")
    if 0 in how.std:
        raise UsageError(f"{name}: `std` must not be zero: values are divided by it", why=f"it is {how.std}")
    for field in ("mean", "std"):
        if len(getattr(how, field)) != channels:
            raise UsageError(
                f"{name}: `{field}` must have {channels} value{'s' if channels > 1 else ''} for {how.channels} images",
                why=f"it is {getattr(how, field)}",
            )
    if how.resize is not None and how.resize < max(how.size):
        raise UsageError(f"{name}: `resize` {how.resize} is too small to cut {how.size} out of it")


def prepare_image(path: Path, name: str, how: Images) -> Array:
    """Return an image as an input, `[c, h, w]` or `[h, w, c]` float32.

    Raises:
        UsageError: when it cannot be read; the message calls it by `name`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError
    from PIL.Image import DecompressionBombError

    try:
        with Image.open(path) as opened:
            upright = ImageOps.exif_transpose(opened)
            image = _cut(upright.convert("RGB" if how.channels == "rgb" else "L"), how)
    except (UnidentifiedImageError, OSError, DecompressionBombError) as error:
        raise UsageError(f"{name} cannot be read as an image", why=str(error)) from error
    scaled: Array = np.asarray(image, np.float32).reshape(*how.size, -1) * np.float32(how.scale)
    pixels: Array = (scaled - np.array(how.mean, np.float32)) / np.array(how.std, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if how.layout == "nchw" else pixels


def _cut(image: Image, how: Images) -> Image:
    from PIL.Image import Resampling

    height, width = how.size
    method = Resampling[how.resample.upper()]
    if how.resize is None:
        return image.resize((width, height), method)
    shorter = min(image.size)
    wide, high = (round(side * how.resize / shorter) for side in image.size)
    left, top = round((wide - width) / 2), round((high - height) / 2)
    return image.resize((wide, high), method).crop((left, top, left + width, top + height))
