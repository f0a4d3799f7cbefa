"""Warnings about a dataset."""

from __future__ import annotations

import numpy as np

from orun.measure.dataset import Dataset, Values
from orun.measure.dataset_warnings import warn_of_duplicates, warn_of_unused_inputs

X = np.arange(40, dtype=np.float32).reshape(20, 2)
REPEATED = (
    "examples repeat other examples, label and all. Each counts as evidence, so intervals are too narrow "
    "if these are copies and not independent observations: leave copies out"
)


def test_inputs_that_the_model_does_not_take() -> None:
    dataset = Dataset({"x": X, "mask": X, "scale": X, "bias": X})
    inputs = {"model": ["x"], "reference": ["x", "mask"], "reference.fused": ["x", "mask", "bias"]}
    assert list(warn_of_unused_inputs(inputs, dataset)) == [
        "the model is not fed mask, which the dataset has: only the reference has such an input",
        "the model is not fed scale, which the dataset has: no model has such an input (inputs: x, mask, bias)",
        "the model is not fed bias, which the dataset has: only the reference `fused` has such an input",
    ]
    assert list(warn_of_unused_inputs({"model": ["x", "mask", "scale", "bias"], "baseline": ["x"]}, dataset)) == []


def test_a_column_that_may_hold_the_labels() -> None:
    inputs: dict[str, Values] = {"x": X, "churn": np.arange(20), "pair": X}
    names = {"model": ["x"]}
    unused = "the model is not fed {}, which the dataset has: no model has such an input (inputs: x)"
    plain = [unused.format(name) for name in ("churn", "pair")]
    hint = "; if these are the labels, say so beside its path: `labels: churn`"
    assert list(warn_of_unused_inputs(names, Dataset(inputs), has_columns=True)) == [plain[0] + hint, plain[1]]
    assert list(warn_of_unused_inputs(names, Dataset(inputs, np.zeros(20)), has_columns=True)) == plain
    assert list(warn_of_unused_inputs(names, Dataset(inputs))) == plain


def test_examples_that_repeat_others() -> None:
    labels = np.arange(20) % 2
    assert warn_of_duplicates(Dataset({"x": X}, labels)) == ""
    twice = np.concatenate([X[:19], X[:1]])
    assert warn_of_duplicates(Dataset({"x": twice}, np.concatenate([labels[:19], labels[:1]]))) == (
        f"1 of 20 {REPEATED}"
    )
    assert warn_of_duplicates(Dataset({"x": twice}, np.concatenate([labels[:19], 1 - labels[:1]]))) == ""
    assert warn_of_duplicates(Dataset({"x": twice}, fields={"when": np.arange(20)})) == ""
    few = np.concatenate([X, X, X, X[:2]])[:41]  # one more than twice 20
    assert warn_of_duplicates(Dataset({"x": few})) == f"21 of 41 {REPEATED}"


def test_a_few_coincidences_are_not_told() -> None:
    values = np.arange(21, dtype=np.int64)[:, None]
    values[20] = 3
    assert warn_of_duplicates(Dataset({"ids": values})) == ""


def test_texts_and_examples_of_several_lengths_are_compared_by_what_they_say() -> None:
    texts = np.array(["yes", "no", str(b"yes", "ascii")], dtype=object)  # equal, and another object
    assert warn_of_duplicates(Dataset({"text": texts})) == f"1 of 3 {REPEATED}"
    lengths = [np.zeros(2, np.int64), np.zeros(3, np.int64), np.zeros(2, np.int64)]
    assert warn_of_duplicates(Dataset({"ids": lengths})) == f"1 of 3 {REPEATED}"
    assert warn_of_duplicates(Dataset({"ids": lengths[:2]})) == ""
