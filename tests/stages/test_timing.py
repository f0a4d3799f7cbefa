"""Inputs of timed models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages.timing import Sizes, count_examples, make_feeds
from tests.stages.models import ADD, LOOKUP, parse
from tests.stages.support import artifact


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    paths = {"model": tmp_path / "lookup.onnx", "reference": tmp_path / "again.onnx"}
    for path in paths.values():
        onnx.save(parse(LOOKUP), path)
    return paths


def test_values_are_made_up_from_the_signature(models: dict[str, Path]) -> None:
    fed = make_feeds(models, Sizes(4), 3, None)["model"]
    assert {name: (array.shape, str(array.dtype)) for name, array in fed.items()} == {
        "ids": ((4, 128), "int64"),
        "mask": ((4, 128), "int64"),
        "extra": ((4, 2), "float32"),
    }
    assert set(np.unique(fed["ids"])) == {0, 1, 2, 3, 4}  # rows of the table
    assert (fed["mask"] == 1).all()


@pytest.mark.parametrize("batch", ["batch", "batch_size"])
def test_a_batch_that_is_not_the_first_axis(tmp_path: Path, batch: str) -> None:
    """As of recurrent models with time first, and of their states."""
    onnx.save(
        parse(f"""
        <ir_version: 9, opset_import: ["": 20]>
        g (float[time, {batch}, 3] x, float[2, {batch}, 3] h) => (float[time, {batch}, 3] y, float[2, {batch}, 3] k)
        {{ y = Neg (x) k = Neg (h) }}
        """),
        tmp_path / "model.onnx",
    )
    fed = make_feeds({"model": tmp_path / "model.onnx"}, Sizes(4), 3, None)["model"]
    assert {name: array.shape for name, array in fed.items()} == {"x": (128, 4, 3), "h": (2, 4, 3)}
    assert count_examples(tmp_path / "model.onnx", fed, 1) == 4


def test_models_share_the_inputs_that_they_share(models: dict[str, Path]) -> None:
    fed = make_feeds(models, Sizes(), 3, None)
    assert all(fed["reference"][name] is array for name, array in fed["model"].items())


def test_models_that_take_other_types_of_an_input_get_values_of_their_own_type(tmp_path: Path) -> None:
    paths = {"model": tmp_path / "half.onnx", "reference": tmp_path / "full.onnx"}
    for path, kind in zip(paths.values(), ("float16", "float"), strict=True):
        header = '<ir_version: 9, opset_import: ["": 20]>'
        onnx.save(parse(f"{header} g ({kind}[n, 3] x) => ({kind}[n, 3] y) {{ y = Neg (x) }}"), path)
    fed = make_feeds(paths, Sizes(2), 3, None)
    assert {role: str(feed["x"].dtype) for role, feed in fed.items()} == {"model": "float16", "reference": "float32"}
    assert np.array_equal(fed["model"]["x"], fed["reference"]["x"].astype(np.float16))


def test_an_input_of_the_other_model_alone_is_made_up_too(models: dict[str, Path], tmp_path: Path) -> None:
    onnx.save(parse(ADD), tmp_path / "add.onnx")
    fed = make_feeds({"model": models["model"], "reference": tmp_path / "add.onnx"}, Sizes(2), 3, None)
    assert {name: array.shape for name, array in fed["reference"].items()} == {"x": (2, 3)}


def test_a_seed_gives_the_same_values_again(models: dict[str, Path]) -> None:
    first, second, other = (make_feeds(models, Sizes(), seed, None)["model"]["extra"] for seed in (3, 3, 4))
    assert first.tolist() == second.tolist() != other.tolist()


def test_sizes_of_other_axes(models: dict[str, Path]) -> None:
    assert make_feeds(models, Sizes(2, {"length": 9}), 3, None)["model"]["ids"].shape == (2, 9)


def test_an_axis_that_the_model_does_not_have(models: dict[str, Path]) -> None:
    with pytest.raises(UsageError) as caught:
        make_feeds(models, Sizes(2, {"lenght": 9}), 3, None)
    assert str(caught.value) == "the model has no dynamic axis 'lenght'\n  its dynamic axes are batch, length"


def test_the_first_examples_of_a_dataset(models: dict[str, Path]) -> None:
    ids = np.arange(15).reshape(5, 3) % 5
    dataset = Dataset({"ids": ids, "mask": np.ones_like(ids), "extra": np.zeros((5, 2), np.float32), "more": ids})
    fed = make_feeds(models, Sizes(2), 3, dataset)["model"]
    assert set(fed) == {"ids", "mask", "extra"}
    assert fed["ids"].tolist() == ids[:2].tolist()


def test_fewer_examples_than_the_batch_are_not_taken_for_it(models: dict[str, Path]) -> None:
    """Otherwise the throughput would count examples that were never fed."""
    lengths = (3, 4, 4, 3, 4)
    ids = [np.zeros(length, np.int64) for length in lengths]
    dataset = Dataset({"ids": ids, "mask": ids, "extra": np.zeros((5, 2), np.float32)})
    assert make_feeds(models, Sizes(3), 3, dataset)["model"]["ids"].shape == (3, 4)
    with pytest.raises(UsageError) as caught:
        make_feeds(models, Sizes(4), 3, dataset)
    assert str(caught.value) == (
        "`batch` is 4, and the dataset does not have that many examples of one shape\n"
        "  it has 3\n"
        "  hint: give more examples, or reduce `batch`"
    )


def test_an_example_of_an_input_without_an_axis_for_the_batch_is_fed_whole(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 2] x, float t) => (float[n, 2] y) { y = Mul(x, t) }'
    models = {"model": artifact(tmp_path, parse(text)) / "model.onnx"}
    dataset = Dataset({"x": np.ones((3, 2), np.float32), "t": np.array([5, 6, 7], np.float32)})
    fed = make_feeds(models, Sizes(), 3, dataset)["model"]
    assert (fed["x"].shape, fed["t"].shape, fed["t"].item()) == ((1, 2), (), 5)
    with pytest.raises(UsageError) as caught:
        make_feeds(models, Sizes(2), 3, dataset)
    assert str(caught.value) == (
        "`batch` is 2, and input 't' of the model has no axis for a batch in front\n  hint: leave `batch` out"
    )


def fixed(folder: Path, batch: int) -> dict[str, Path]:
    text = f'<ir_version: 9, opset_import: ["" : 20]> g (float[{batch}, 2] x) => (float[{batch}, 2] y) {{ y = Neg(x) }}'
    return {"reference": artifact(folder, parse(text)) / "model.onnx"}


def test_a_batch_that_the_model_does_not_take(tmp_path: Path) -> None:
    """Otherwise the throughput would count examples that were never fed."""
    assert make_feeds(fixed(tmp_path, 4), Sizes(4), 3, None)["reference"]["x"].shape == (4, 2)
    with pytest.raises(UsageError) as caught:
        make_feeds(fixed(tmp_path, 1), Sizes(8), 3, None)
    assert str(caught.value) == (
        "`batch` is 8, and no input of the reference has such a batch\n"
        "  x is float32 [1, 2]\n"
        "  hint: leave `batch` out, or export the model with a dynamic first axis"
    )


@pytest.mark.parametrize(
    ("batch", "size", "hint"),
    [
        (1, 8, "leave `batch` out, or export the model with a dynamic first axis"),
        (4, 1, "write `batch: 4`"),
        (4, 8, "write `batch: 4`"),
    ],
)
def test_examples_in_another_batch_than_the_model_takes(tmp_path: Path, batch: int, size: int, hint: str) -> None:
    dataset = Dataset({"x": np.ones((8, 2), np.float32)})
    assert make_feeds(fixed(tmp_path, batch), Sizes(batch), 3, dataset)["reference"]["x"].shape == (batch, 2)
    with pytest.raises(UsageError) as caught:
        make_feeds(fixed(tmp_path, batch), Sizes(size), 3, dataset)
    assert str(caught.value) == (
        f"`batch` is {size}, and input 'x' of the model takes a batch of {batch}\n  hint: {hint}"
    )


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        (Sizes(), 1),
        (Sizes(3), 3),
        (Sizes(1, {"batch": 3}), 3),  # by its name
    ],
)
def test_throughput_counts_the_examples_that_are_fed(models: dict[str, Path], sizes: Sizes, count: int) -> None:
    fed = make_feeds(models, sizes, 3, None)["model"]
    assert count_examples(models["model"], fed, sizes.batch) == count


def test_throughput_counts_a_fixed_batch_as_it_is_named(tmp_path: Path) -> None:
    models = fixed(tmp_path, 4)
    for batch in (1, 4):
        fed = make_feeds(models, Sizes(batch), 3, None)["reference"]
        assert count_examples(models["reference"], fed, batch) == batch


def test_a_dataset_without_an_input(models: dict[str, Path]) -> None:
    with pytest.raises(UsageError) as caught:
        make_feeds(
            models, Sizes(), 3, Dataset({"ids": np.zeros((2, 3), np.int64), "extra": np.zeros((2, 2), np.float32)})
        )
    assert str(caught.value) == (
        "the dataset has no values for mask, which the model takes\n  it has ids, extra\n"
        "  hint: name the arrays of the dataset after the model's inputs"
    )
