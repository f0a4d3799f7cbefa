"""Reader of a folder of images: resized, cropped and normalized as in the training of vision models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orun.errors import OrunError, UnknownName, UsageError
from orun.measure.dataset import Array, Dataset
from orun.stages._data.coco import read_annotations
from orun.stages._data.packages import need
from orun.stages._data.source import DType, Images, Source, number_classes
from orun.stages.contract import Context

if TYPE_CHECKING:
    from PIL.Image import Image

ORIENTATION, UPRIGHT = 0x0112, 4  # EXIF tag, 1 if it turns nothing; its largest value that keeps width and height
SAVED_DATASET = "state.json"  # in a folder that `save_to_disk` of the library datasets wrote
SAVED_SPLITS = "dataset_dict.json"  # in such a folder of several splits, each in a folder of its own
DEEP = ("I", "F")  # what Pillow's modes of more than 8 bits in a channel begin with; it cuts them off at 255
SUFFIXES = frozenset({".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
# Of files that are no images and often lie among them.
OTHER_SUFFIXES = frozenset({".csv", ".db", ".html", ".ini", ".json", ".md", ".py", ".txt", ".xml", ".yaml", ".yml"})


def require_images(folder: Path, name: str) -> None:
    """Refuse a folder that Hugging Face's library datasets wrote."""
    if (folder / SAVED_SPLITS).is_file():
        splits = [path.parent.name for path in folder.glob(f"*/{SAVED_DATASET}")]
        split = f"[{min(splits, key=lambda name: (name == 'train', name), default='test')!r}]"
    elif (folder / SAVED_DATASET).is_file():
        split = ""
    else:
        return
    raise UsageError(
        f"{name} is a folder of the library datasets, not of images",
        hint=f"datasets.load_from_disk({name!r}){split}.to_parquet('data.parquet')",
    )


def read_images(folder: Path, name: str, source: Source) -> Dataset:
    """Read every image below a folder, in order of paths.

    If images are in subfolders, each subfolder is a class. Labels number the `classes` of the source; without them,
    the subfolders in order of names.

    Raises:
        UsageError: when there is no image, one cannot be read, a folder is no class, or parameters contradict others.
    """
    how = _require_preparation(folder, name, source.images)
    files = list_images(folder, name, how)
    pixels = np.stack([prepare_image(path, f"{name}/{path.relative_to(folder).as_posix()}", how) for path in files])
    typed = _convert_type(name, how, pixels, source.types)
    return Dataset({how.input: typed}, _label_by_folder(folder, name, files, source.classes))


def read_annotated(root: Path, name: str, source: Source) -> Dataset:
    """Read the images that a COCO file lists, in its order. Labels are their boxes, scaled to the input.

    Raises:
        UsageError: when the file or an image is missing or wrong, or the parameters contradict one another.
    """
    folder = root / source.path
    how = _require_preparation(folder, name, source.images)
    _check(name, how)
    if how.resize is not None:
        why = f"`resize: {how.resize}` cuts the middle out of an image, and boxes with it"
        raise UsageError(f"{name}: with `annotations`, images are resized whole", why=why, hint="say `resize: null`")
    annotations = read_annotations(root / str(source.annotations), str(source.annotations))
    for image in annotations.images:
        _require_size(folder / image.name, f"{name}/{image.name}", image.size, annotations.title)
    labels = annotations.build_labels(how.size, source.classes)
    pixels = [prepare_image(folder / image.name, f"{name}/{image.name}", how) for image in annotations.images]
    return Dataset({how.input: _convert_type(name, how, np.stack(pixels), source.types)}, labels)


def note_ignored_files(context: Context, source: Source) -> None:
    """Note files in a folder of images that may be images, too, and are not read."""
    if source.images is None or source.annotations:
        return
    folder = context.root / source.path
    ignored = [path for path in _search_files(folder) if path.suffix.lower() not in SUFFIXES | OTHER_SUFFIXES]
    if not ignored:
        return
    suffixes = sorted({path.suffix.lower() or "no suffix" for path in ignored})
    files = "1 file" if len(ignored) == 1 else f"{len(ignored)} files"
    context.note(
        f"{source.path} has {files} of suffixes that are not read as images "
        f"({', '.join(suffixes)}), such as {ignored[0].relative_to(folder).as_posix()}: convert images to .png or .jpg"
    )


def list_class_folders(folder: Path) -> tuple[list[str], list[str]]:
    """Return the subfolders of a folder that are classes, and those without images."""
    classes = {*_name_folders(folder, _search_images(folder))} - {""}
    folders = {path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")}
    return sorted(classes), sorted(folders - classes)


def _require_preparation(folder: Path, name: str, how: Images | None) -> Images:
    need("PIL", f"reading the images in {name}", "pillow")
    if how is None:
        _search_some_images(folder, name)
        hint = f"say it: {{path: {name}, images: {{input: pixel_values}}}}"
        raise UsageError(f"{name} is a folder, and `images` does not say how its images become an input", hint=hint)
    return how


def _require_size(path: Path, name: str, size: tuple[float, float], title: str) -> None:
    """Refuse an image that has another size than its annotations say: boxes would lie elsewhere."""
    with open_image(path, f"{name}, of which {title} tells,") as opened:
        is_turned = opened.getexif().get(ORIENTATION, 1) > UPRIGHT
        actual = opened.size[::-1] if is_turned else opened.size
    if actual != size:
        wanted = f"{size[0]:g} x {size[1]:g}"
        raise UsageError(f"{name} is {actual[0]} x {actual[1]}, and {title} says {wanted}")


def list_images(folder: Path, name: str, how: Images) -> list[Path]:
    """Return every image below a folder, in order of paths. Hidden files and folders are skipped.

    Raises:
        UsageError: when there is none, or the parameters contradict one another.
    """
    _check(name, how)
    return _search_some_images(folder, name)


def _search_some_images(folder: Path, name: str) -> list[Path]:
    """Return every image below a folder; raise UsageError if there is none."""
    if images := _search_images(folder):
        return images
    raise UsageError(
        f"{name} has no images",
        why=f"none of its files ends in {', '.join(sorted(SUFFIXES))}",
        hint="read other files, such as sounds, in `file.py:function` that returns an orun.Dataset",
    )


def _search_images(folder: Path) -> list[Path]:
    return [path for path in _search_files(folder) if path.suffix.lower() in SUFFIXES]


def _search_files(folder: Path) -> list[Path]:
    """Return every file below a folder, also through links to folders, in order of paths.

    Hidden files and folders are left out, such as `._000.png` and `.ipynb_checkpoints`, and a link to a folder that it
    is in.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".") and not _is_circle(Path(parent, name))]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    return sorted(files)


def _is_circle(folder: Path) -> bool:
    return folder.is_symlink() and folder.resolve() in [parent.resolve() for parent in folder.parents]


def _name_folders(folder: Path, images: Iterable[Path]) -> list[str]:
    """Return the class folder of each image; an empty text for an image outside of them."""
    return [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in images]


def _label_by_folder(folder: Path, name: str, files: list[Path], classes: Sequence[str]) -> Array | None:
    parents = _name_folders(folder, files)
    folders = sorted(set(parents))
    if folders == [""] and classes:
        raise UsageError(f"{name} has no class folders that `classes` could name")
    if folders == [""]:
        return None
    if "" in folders:
        unlabelled = next(path.name for path, parent in zip(files, parents, strict=True) if not parent)
        message = f"{name} has images in class folders and outside of them"
        raise UsageError(message, why=f"{unlabelled} has no class")
    numbers = number_classes(classes or folders)
    if unknown := [parent for parent in folders if parent not in numbers]:
        message = f"{name}: the folder {unknown[0]!r} is none of `classes`"
        raise UsageError(message, why=f"they are {', '.join(classes)}")
    return np.array([numbers[parent] for parent in parents])


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


@contextmanager
def open_image(path: Path, name: str) -> Iterator[Image]:
    """Open an image, whose pixels are read in the context.

    Raises:
        UsageError: when it cannot be opened or read; the message calls it by `name`.
    """
    from PIL import Image

    try:
        with Image.open(path) as opened:
            yield opened
    except OrunError:
        raise
    except Exception as error:  # Pillow raises errors of many classes for broken files
        why = str(error) or type(error).__name__
        raise UsageError(f"{name} cannot be read as an image", why=why) from error


def prepare_image(path: Path, name: str, how: Images) -> Array:
    """Return an image as an input, `[c, h, w]` or `[h, w, c]` float32.

    Raises:
        UsageError: when it cannot be read; the message calls it by `name`.
    """
    from PIL import ImageOps

    with open_image(path, name) as opened:
        if opened.mode.startswith(DEEP):
            raise UsageError(
                f"{name} has more than 8 bits in a channel ({opened.mode})",
                why="pixels are read from 0 to 255",
                hint="read them in file.py:function that returns an orun.Dataset",
            )
        upright = ImageOps.exif_transpose(opened)
        image = _cut(upright.convert("RGB" if how.channels == "rgb" else "L"), how)
    scaled: Array = np.asarray(image, np.float32).reshape(*how.size, -1) * np.float32(how.scale)
    pixels: Array = (scaled - np.array(how.mean, np.float32)) / np.array(how.std, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if how.layout == "nchw" else pixels


def _convert_type(name: str, how: Images, pixels: Array, types: Mapping[str, DType]) -> Array:
    """Return prepared pixels in the type that the source declares; float32 when it declares none."""
    if unknown := [title for title in types if title != how.input]:
        raise UnknownName(
            f"{name}: `types` names {unknown[0]!r}", unknown[0], [how.input], why=f"images are the input {how.input}"
        )
    dtype = types.get(how.input, "float32")
    if dtype in ("bool", "text"):
        raise UsageError(f"{name}: images cannot be of the type {dtype}", hint=f"say `types: {{{how.input}: uint8}}`")
    with np.errstate(invalid="ignore"):  # numbers that do not fit are refused below
        typed = pixels.astype(dtype)
    if typed.dtype.kind in "iu" and (typed != pixels).any():
        channels = len(how.mean)
        raise UsageError(
            f"{name}: prepared pixels are not whole numbers of {dtype}",
            why=f"they go from {pixels.min():g} to {pixels.max():g}",
            hint=f"to keep pixels as they are: `scale: 1, mean: {[0] * channels}, std: {[1] * channels}`",
        )
    return typed


def _cut(image: Image, how: Images) -> Image:
    from PIL.Image import Resampling

    height, width = how.size
    method = Resampling[how.resample.upper()]
    if how.resize is None:
        return image.resize((width, height), method)
    shorter = min(image.size)
    wide, high = (int(side * how.resize / shorter) for side in image.size)  # as torchvision and transformers
    left, top = round((wide - width) / 2), round((high - height) / 2)
    return image.resize((wide, high), method).crop((left, top, left + width, top + height))
