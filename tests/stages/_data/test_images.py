"""Folders of images."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("key", ["classes", "fields"])
def test_what_is_of_columns(photos: Path, key: str) -> None:
    assert refusal(photos, "photos", images={"input": "pixels"}, **{key: ["cats"]}) == (
        f"`{key}` is for columns, and photos is a folder\n"
        "  the class of an image is its folder, in order of names, and it has no fields"
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
    (photos / "empty").mkdir()
    assert refusal(photos, "empty", images={"input": "x"}).startswith("empty has no images\n")


def test_sizes_and_divisors_of_nothing(photos: Path) -> None:
    how = {"input": "x", "size": [0, 8], "resize": 8}
    assert refusal(photos, "photos", images=how) == (
        "photos: `size` must be of at least one pixel each way\n  it is [0, 8]"
    )
    how = {"input": "x", "std": [0.5, 0.0, 0.5]}
    assert refusal(photos, "photos", images=how) == (
        "photos: `std` must not be zero: values are divided by it\n  it is [0.5, 0.0, 0.5]"
    )


def test_images_too_large_to_be_meant(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    assert refusal(photos, "photos", images={"input": "x"}) == (
        "photos/cats/red.png cannot be read as an image\n"
        "  Image size (32 pixels) exceeds limit of 8 pixels, could be decompression bomb DOS attack."
    )
