"""Datasets: what fits together, and batches that never pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from orun.errors import UsageError
from orun.measure.dataset import Array, Dataset, Values, count, iter_batches, list_unbatched


def test_an_array_for_each_input() -> None:
    dataset = Dataset({"x": np.zeros((4, 3)), "y": np.arange(4)}, labels=np.array([0, 1, 0, 1]))
    assert len(dataset) == 4
    assert dataset.candidates is None


def test_a_list_of_equal_shapes_becomes_one_array() -> None:
    dataset = Dataset({"x": [np.zeros(3), np.ones(3)]})
    assert isinstance(dataset.inputs["x"], np.ndarray)
    assert dataset.inputs["x"].shape == (2, 3)


def test_plain_lists_become_arrays() -> None:
    dataset = Dataset({"ids": [[1, 2], [3]]}, labels=[0, 1])  # type: ignore[arg-type,list-item]
    assert [value.dtype.kind for value in dataset.inputs["ids"]] == ["i", "i"]
    assert dataset.labels is not None
    assert dataset.labels.shape == (2,)


def test_texts_of_any_length_are_objects() -> None:
    values: Any = {"text": ["hello", "hi"], "pair": [["a", "b"], ["long", "longer"]]}
    texts = Dataset(values).inputs
    assert isinstance(texts["text"], np.ndarray)
    assert isinstance(texts["pair"], np.ndarray)
    assert (str(texts["text"].dtype), texts["text"].tolist()) == ("object", ["hello", "hi"])
    assert texts["pair"].tolist() == [["a", "b"], ["long", "longer"]]


def test_spread_keeps_every_candidate() -> None:
    dataset = Dataset({"x": [np.zeros(1), np.zeros(2), np.zeros(3)]}, np.arange(3), {"x": np.zeros((5, 1))})
    few = dataset.spread(2)
    assert len(few) == 2
    assert few.labels is not None
    assert few.labels.tolist() == [0, 2]
    assert few.candidates is not None
    assert count(few.candidates) == 5
    assert len(dataset.spread(100)) == 3


@pytest.mark.parametrize(
    ("labels", "counts"), [(np.repeat(np.arange(3), 100), [10, 10, 10]), (np.tile(np.arange(3), 100), [6, 10, 14])]
)
def test_spread_yields_every_class_of_data_in_order_and_of_data_that_alternate(
    labels: Array, counts: list[int]
) -> None:
    few = Dataset({"x": np.arange(300)}, labels).spread(30)
    assert few.labels is not None
    assert np.bincount(few.labels).tolist() == counts
    assert (np.diff(np.asarray(few.inputs["x"])) > 0).all()


def test_batches_hold_one_shape_each_and_every_example_once() -> None:
    lengths = [2, 3, 2, 2, 3, 1]
    values = [np.full(length, index) for index, length in enumerate(lengths)]
    read = list(iter_batches({"x": values}, size=2))
    assert [batch.examples.tolist() for batch in read] == [[5], [0, 2], [3], [1, 4]]
    assert [batch.feed["x"].tolist() for batch in read] == [[[5]], [[0, 0], [2, 2]], [[3, 3]], [[1, 1, 1], [4, 4, 4]]]


def test_an_input_without_an_axis_for_the_batch_is_fed_whole() -> None:
    inputs: dict[str, Values] = {"x": np.arange(6).reshape(2, 3), "t": np.array([7.0, 8.0]), "m": np.ones((2, 4, 3))}
    unbatched = list_unbatched(inputs, {"x": ["batch", 3], "t": [], "m": [4, 3]})
    assert unbatched == ["t", "m"]
    read = list(iter_batches(inputs, 2, unbatched))
    assert [{name: value.shape for name, value in batch.feed.items()} for batch in read] == [
        {"x": (1, 3), "t": (), "m": (4, 3)}
    ] * 2
    assert [batch.feed["t"].item() for batch in read] == [7.0, 8.0]
    assert list_unbatched({"x": np.ones((8, 3))}, {"x": [4, 3]}) == []  # rows for a model of batch 4


@pytest.mark.parametrize("axes", [["time", "batch", 3], [2, "batch_size", 3]])
def test_examples_are_not_joined_along_another_axis_than_the_batch(axes: list[int | str]) -> None:
    with pytest.raises(UsageError) as refused:
        list_unbatched({"x": np.ones((5, 2, 3))}, {"x": axes})
    assert str(refused.value) == (
        f"input 'x' of the model has its batch on axis 1: {axes}\n"
        "  examples are joined along the first axis, which the model would read as another one\n"
        "  hint: give each example all axes of the model, with a batch of 1: it is then fed alone"
    )
    assert list_unbatched({"x": np.ones((5, 2, 1, 3))}, {"x": axes}) == ["x"]
    for layers in (1, 2):  # of a state with its own batch of 1
        assert list_unbatched({"x": np.ones((5, layers, 1, 3))}, {"x": [layers, "batch", 3]}) == ["x"]


def test_batches_of_an_array_are_in_order() -> None:
    read = list(iter_batches({"x": np.arange(5), "y": np.arange(5) * 10}, size=2))
    assert [batch.feed["x"].tolist() for batch in read] == [[0, 1], [2, 3], [4]]
    assert [batch.feed["y"].tolist() for batch in read] == [[0, 10], [20, 30], [40]]


def test_shapes_of_all_inputs_count() -> None:
    inputs: dict[str, Values] = {"x": np.zeros((2, 1)), "y": [np.zeros(1), np.zeros(2)]}
    assert [batch.examples.tolist() for batch in iter_batches(inputs, size=8)] == [[0], [1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"inputs": {"x": np.zeros((4, 3)), "y": np.zeros(3)}},
            "the inputs of a dataset have different numbers of examples\n  x has 4, y has 3",
        ),
        ({"inputs": {"x": np.zeros((0, 3))}}, "the inputs of a dataset are empty"),
        (
            {"inputs": np.zeros(3)},
            "the inputs of a dataset must map the names of a model's inputs to arrays\n  got array([0., 0., 0.])",
        ),
        (
            {"inputs": {"x": np.float32(1)}},
            "inputs.x of a dataset must be an array or a list of arrays\n  got np.float32(1.0)",
        ),
        (
            {"inputs": {"x": torch.zeros(2, 3)}},
            (
                "inputs.x of a dataset must be an array or a list of arrays\n  got a Tensor\n"
                "  hint: convert it: values.numpy()"
            ),
        ),
        (
            {"inputs": {"x": [np.zeros(2), np.zeros(3, np.int64)]}},
            "inputs.x of a dataset mixes the types float64 and int64",
        ),
        (
            {"inputs": {"x": [[[1], [2, 3]]]}},
            (
                "an example of inputs.x of a dataset: its rows have different lengths\n  got [[1], [2, 3]]\n"
                "  hint: give each example as an array with rows of equal length"
            ),
        ),
        (
            {"inputs": {"x": np.zeros(2)}, "labels": [[1, 2], [3]]},
            (
                "the labels of a dataset: its rows have different lengths\n  got [[1, 2], [3]]\n"
                "  hint: make an object of each row: labels = np.empty(len(rows), object); labels[:] = rows"
            ),
        ),
        (
            {"inputs": {"x": np.zeros(2)}, "fields": {"source": [[1, 2], [3]]}},
            (
                "the field source of a dataset: its rows have different lengths\n  got [[1, 2], [3]]\n"
                "  hint: give one value for each example"
            ),
        ),
        (
            {"inputs": {"x": np.zeros(3)}, "labels": np.zeros(2)},
            "a dataset of 3 examples has labels of shape [2]",
        ),
        (
            {"inputs": {"x": np.zeros(3)}, "labels": np.zeros(3), "candidates": {"x": np.zeros(5)}},
            (
                "with candidates, the labels of a dataset must be the index of a candidate for each example\n"
                "  they are float64 of shape [3], for 3 examples"
            ),
        ),
        (
            {"inputs": {"x": np.zeros(3)}, "labels": np.array([4, 5, -1]), "candidates": {"x": np.zeros(5)}},
            "the label of example 1 is 5, and there are 5 candidates\n  2 of 3 labels are not the index of a candidate",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        Dataset(**arguments)
    assert str(error.value) == message
