"""Folders of images."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.stages._data.support import array, labels, load, refusal


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes: a red and a green image of 8 x 4."""
    for name, colour in (("cats/red.png", (255, 0, 0)), ("dogs/green.png", (0, 255, 0))):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True)
        Image.new("RGB", (8, 4), colour).save(path)
    return tmp_path


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fields", ["cats"]),
        ("inputs", {"pixels": "x"}),
        ("labels", "animal"),
        ("missing", "nan"),
        ("text", {"tokenizer": "words"}),
    ],
)
def test_keys_of_columns_are_not_for_a_folder(photos: Path, key: str, value: object) -> None:
    assert refusal(photos, "photos", images={"input": "pixels"}, **{key: value}) == (
        f"`{key}` is for columns, and photos is a folder\n  its images are the only input"
    )


def test_classes_number_the_folders(photos: Path) -> None:
    how = {"images": {"input": "pixels"}}
    assert labels(load(photos, "photos", **how, classes=["birds", "dogs", "cats"])) == [2, 1]
    assert refusal(photos, "photos", **how, classes=["birds", "cats", "dog"]) == (
        "photos: the folder 'dogs' is none of `classes`\n  they are birds, cats, dog"
    )
    assert refusal(photos, "photos", **how, classes=["cats", "dogs", "cats"]) == (
        "`classes` names cats twice\n  the position of a name is the position of its score"
    )
    assert refusal(photos, "photos/cats", **how, classes=["cats"]) == (
        "photos/cats has no class folders that `classes` could name"
    )


def test_keys_of_images_are_for_a_folder_of_images(photos: Path) -> None:
    np.save(photos / "x.npy", np.ones(3))
    for key, value in (("images", {"input": "pixels"}), ("annotations", "boxes.json")):
        message = f"`{key}` is for a folder of images\n  x.npy is not a folder"
        assert refusal(photos, "x.npy", **{key: value}) == message
    assert refusal(photos, "photos", images=WHOLE, annotations="boxes.json", fields=["day"]).startswith(
        "`fields` is for columns, and photos is a folder"
    )


def test_the_preparation_of_imagenet(photos: Path) -> None:
    dataset = load(photos, "photos", images={"input": "pixel_values"})
    pixels = array(dataset, "pixel_values")
    assert (pixels.shape, str(pixels.dtype)) == ((2, 3, 224, 224), "float32")
    assert pixels[0, :, 0, 0] == pytest.approx([(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225])
    assert labels(dataset) == [0, 1]


def test_the_middle_is_cut_out(tmp_path: Path) -> None:
    stripes = np.repeat(np.array([[0, 0, 50, 100, 150, 200, 0, 0]], np.uint8), 4, axis=0)
    (tmp_path / "one").mkdir()
    Image.fromarray(stripes).save(tmp_path / "one" / "stripes.png")
    how = {"input": "x", "size": [4, 4], "channels": "grey", "scale": 1.0, "mean": [50.0], "std": [50.0]}
    cut = load(tmp_path, "one", images={**how, "resize": 4, "layout": "nhwc"})
    assert array(cut, "x")[0, 0, :, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert cut.labels is None
    squeezed = load(tmp_path, "one", images={**how, "resize": None, "resample": "nearest"})
    assert array(squeezed, "x").shape == (1, 1, 4, 4)


@pytest.mark.parametrize("shape", [(427, 640), (640, 427)])
def test_sizes_are_those_of_torchvision(tmp_path: Path, shape: tuple[int, int]) -> None:
    """256 x 640 / 427 is 383.7: torchvision and transformers take 383, and cut the centre at round(159 / 2)."""
    (tmp_path / "one").mkdir()
    y, x = np.mgrid[: shape[0], : shape[1]]
    image = Image.fromarray(((x * 7 + y * 11) % 256).astype(np.uint8))
    image.save(tmp_path / "one" / "photo.png")
    how = {"input": "x", "channels": "grey", "scale": 1.0, "mean": [0.0], "std": [1.0]}
    pixels = array(load(tmp_path, "one", images=how), "x")[0, 0]
    wide, left, top = (383, 80, 16) if shape[1] > shape[0] else (256, 16, 80)
    resized = np.asarray(image.resize((wide, 639 - wide), Image.Resampling.BILINEAR))
    assert (pixels == resized[top : top + 224, left : left + 224]).all()


@pytest.mark.parametrize(("dtype", "mode"), [(np.uint16, "I;16"), (np.int32, "I"), (np.float32, "F")])
def test_images_of_more_than_8_bits_are_refused(tmp_path: Path, dtype: type[np.generic], mode: str) -> None:
    """Pillow would cut their values off at 255: all white."""
    (tmp_path / "one").mkdir()
    Image.fromarray(np.full((4, 4), 3000, dtype)).save(tmp_path / "one" / "deep.tiff")
    assert refusal(tmp_path, "one", images={"input": "x"}) == (
        f"one/deep.tiff has more than 8 bits in a channel ({mode})\n"
        "  pixels are read from 0 to 255\n"
        "  hint: read them in file.py:function that returns an orun.Dataset"
    )


def test_hidden_files_and_folders_are_skipped(photos: Path) -> None:
    (photos / "photos" / ".ipynb_checkpoints").mkdir()
    Image.new("RGB", (8, 4)).save(photos / "photos" / ".ipynb_checkpoints" / "red.png")
    (photos / "photos" / "cats" / "._red.png").write_bytes(b"attributes of macOS")
    assert labels(load(photos, "photos", images={"input": "x"})) == [0, 1]


def test_class_folders_that_are_links(photos: Path) -> None:
    (photos / "photos" / "cats").rename(photos / "elsewhere")
    (photos / "photos" / "cats").symlink_to(photos / "elsewhere")
    (photos / "elsewhere" / "all").symlink_to(photos / "photos")  # a circle
    (photos / "photos" / "dogs" / "linked.png").symlink_to(photos / "elsewhere" / "red.png")
    dataset = load(photos, "photos", images={"input": "x"})
    assert labels(dataset) == [0, 1, 1]
    assert array(dataset, "x")[:, 0, 0, 0].argsort(kind="stable").tolist() == [1, 0, 2]  # green, red, red


@pytest.mark.parametrize("suffix", [".jfif", ".pgm"])
def test_suffixes_of_jpeg_and_netpbm(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "one").mkdir()
    Image.new("L", (8, 4), 255).save(tmp_path / "one" / f"white{suffix}")
    how = {"input": "x", "mean": [0.0] * 3, "std": [1.0] * 3}
    assert array(load(tmp_path, "one", images=how), "x").min() == 1


def test_pixels_as_whole_numbers(photos: Path) -> None:
    plain = {"input": "x", "scale": 1, "mean": [0, 0, 0], "std": [1, 1, 1]}
    pixels = array(load(photos, "photos", images=plain, types={"x": "uint8"}), "x")
    assert (str(pixels.dtype), pixels[:, :, 0, 0].tolist()) == ("uint8", [[255, 0, 0], [0, 255, 0]])
    assert refusal(photos, "photos", images={"input": "x"}, types={"x": "uint8"}) == (
        "photos: prepared pixels are not whole numbers of uint8\n"
        "  they go from -2.1179 to 2.42857\n"
        "  hint: to keep pixels as they are: `scale: 1, mean: [0, 0, 0], std: [1, 1, 1]`"
    )
    assert refusal(photos, "photos", images=plain, types={"image": "uint8"}) == (
        "photos: `types` names 'image'\n  images are the input x"
    )
    assert refusal(photos, "photos", images=plain, types={"x": "text"}) == (
        "photos: images cannot be of the type text\n  hint: say `types: {x: uint8}`"
    )


def test_images_that_a_camera_turned(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    image = Image.fromarray(np.array([[10, 20]], np.uint8))
    exif = image.getexif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "one" / "turned.png", exif=exif)
    how = {"input": "x", "size": [1, 2], "resize": None, "channels": "grey", "scale": 1.0, "mean": [0.0], "std": [1.0]}
    assert array(load(tmp_path, "one", images=how), "x").ravel().tolist() == [20.0, 10.0]


def test_what_is_wrong_is_named(photos: Path) -> None:
    assert refusal(photos, "photos") == (
        "photos is a folder, and `images` does not say how its images become an input\n"
        "  hint: say it: {path: photos, images: {input: pixel_values}}"
    )
    assert refusal(photos, "photos", images={"input": "x", "channels": "grey"}) == (
        "photos: `mean` must have 1 value for grey images\n  it is [0.485, 0.456, 0.406]"
    )
    assert refusal(photos, "photos", images={"input": "x", "size": [300, 300]}) == (
        "photos: `resize` 256 is too small to cut [300, 300] out of it"
    )
    (photos / "photos" / "dogs" / "broken.jpg").write_bytes(b"no image")
    assert refusal(photos, "photos", images={"input": "x"}).startswith(
        "photos/dogs/broken.jpg cannot be read as an image\n"
    )
    (photos / "photos" / "dogs" / "broken.jpg").unlink()
    Image.new("RGB", (8, 4)).save(photos / "photos" / "stray.png")
    assert refusal(photos, "photos", images={"input": "x"}) == (
        "photos has images in class folders and outside of them\n  stray.png has no class"
    )
    (photos / "sounds").mkdir()
    (photos / "sounds" / "1.wav").touch()
    no_images = (
        "sounds has no images\n"
        "  none of its files ends in .bmp, .gif, .jfif, .jpeg, .jpg, .pgm, .png, .ppm, .tif, .tiff, .webp\n"
        "  hint: read other files, such as sounds, in `file.py:function` that returns an orun.Dataset"
    )
    assert refusal(photos, "sounds", images={"input": "x"}) == no_images
    assert refusal(photos, "sounds") == no_images  # and no word on `images`


def test_sizes_and_divisors_of_nothing(photos: Path) -> None:
    how = {"input": "x", "size": [0, 8], "resize": 8}
    assert refusal(photos, "photos", images=how) == (
        "photos: `size` must be of at least one pixel each way\n  it is [0, 8]"
    )
    how = {"input": "x", "std": [0.5, 0.0, 0.5]}
    assert refusal(photos, "photos", images=how) == (
        "photos: `std` must not be zero: values are divided by it\n  it is [0.5, 0.0, 0.5]"
    )


@pytest.mark.parametrize(
    "error", [SyntaxError("broken PNG file"), ValueError(""), TypeError("no int"), struct.error("4 bytes")]
)
@pytest.mark.parametrize("annotated", [False, True])
def test_errors_of_pillow_name_the_file(
    photos: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, *, annotated: bool
) -> None:
    """Its readers raise these for damaged files."""
    (photos / "boxes.json").write_text(json.dumps(COCO), "utf-8")

    def fail(_path: Path) -> None:
        raise error

    monkeypatch.setattr(Image, "open", fail)
    if annotated:
        message = refusal(photos, "photos", images=WHOLE, annotations="boxes.json")
        assert message == (
            "photos/dogs/green.png, of which boxes.json tells, cannot be read as an image\n"
            f"  {str(error) or 'ValueError'}"
        )
    else:
        message = refusal(photos, "photos", images={"input": "x"})
        assert message == f"photos/cats/red.png cannot be read as an image\n  {str(error) or 'ValueError'}"


def test_images_too_large_to_be_meant(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    assert refusal(photos, "photos", images={"input": "x"}) == (
        "photos/cats/red.png cannot be read as an image\n"
        "  Image size (32 pixels) exceeds limit of 8 pixels, could be decompression bomb DOS attack."
    )


COCO = {
    "images": [
        {"id": 9, "file_name": "dogs/green.png", "width": 8, "height": 4},
        {"id": 4, "file_name": "cats/red.png", "width": 8, "height": 4},
    ],
    "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 4, "category_id": 17, "bbox": [1, 1, 2, 3], "iscrowd": 0, "area": 6},
        {"id": 2, "image_id": 4, "category_id": 18, "bbox": [0, 0, 8, 4], "iscrowd": 1},
    ],
}
WHOLE = {"input": "x", "size": [8, 32], "resize": None}


def test_boxes_of_coco_are_in_pixels_of_the_input(photos: Path) -> None:
    (photos / "boxes.json").write_text(json.dumps(COCO), "utf-8")
    dataset = load(photos, "photos", images=WHOLE, annotations="boxes.json")
    assert array(dataset, "x").shape == (2, 3, 8, 32)
    assert array(dataset, "x")[:, 1, 0, 0].argmax() == 0  # the green one is listed first
    assert dataset.labels is not None
    empty, full = dataset.labels
    assert (empty["xywh"].shape, empty["classes"].tolist(), empty["crowd"].tolist()) == ((0, 4), [], [])
    assert full["xywh"].tolist() == [[4, 2, 8, 6], [0, 0, 32, 8]]
    assert (full["classes"].tolist(), full["crowd"].tolist()) == ([17, 18], [False, True])
    named = load(photos, "photos", images=WHOLE, annotations="boxes.json", classes=["dog", "cat"]).labels
    assert named is not None
    assert named[1]["classes"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("change", "source", "message"),
    [
        ({"images": [], "annotations": []}, {}, "boxes.json lists no images"),
        ({"categories": None}, {}, "boxes.json is not a file of COCO annotations\n  'NoneType' object is not iterable"),
        (
            {"annotations": [{"image_id": 4, "category_id": 17}]},
            {},
            "boxes.json is not a file of COCO annotations\n  it has no 'bbox'",
        ),
        (
            {"annotations": [{"image_id": 5}]},
            {},
            "boxes.json is not a file of COCO annotations\n  a box is of image 5, which it does not list",
        ),
        (
            {"annotations": [{"image_id": 4, "category_id": 3}]},
            {},
            "boxes.json is not a file of COCO annotations\n  a box is of category 3, which it does not list",
        ),
        ({}, {"classes": ["cat", "horse"]}, "boxes.json has no category 'horse'"),
        (
            {},
            {"classes": ["cat"]},
            "boxes.json: a box in cats/red.png is of category 'dog', which is none of `classes`",
        ),
        (
            {"images": [{"id": 4, "file_name": "cats/red.png", "width": 4, "height": 8}]},
            {},
            "photos/cats/red.png is 8 x 4, and boxes.json says 4 x 8",
        ),
        (
            {"images": [{"id": 4, "file_name": "cats/blue.png", "width": 4, "height": 8}]},
            {},
            "photos/cats/blue.png, of which boxes.json tells, cannot be read as an image\n  [Errno 2]",
        ),
        (
            {},
            {"images": {"input": "x"}},
            "photos: with `annotations`, images are resized whole\n  `resize: 256` cuts the middle out of an image",
        ),
    ],
)
def test_annotations_that_are_refused(
    photos: Path, change: dict[str, Any], source: dict[str, Any], message: str
) -> None:
    (photos / "boxes.json").write_text(json.dumps({**COCO, **change}), "utf-8")
    assert message in refusal(photos, "photos", annotations="boxes.json", **{"images": WHOLE, **source})
