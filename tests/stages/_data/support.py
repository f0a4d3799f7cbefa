"""Datasets in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.errors import UsageError
from orun.measure.dataset import Array, Dataset
from orun.stages._data.files import read
from orun.stages._data.source import Source
from orun.stages.params import build


def load(root: Path, path: str, **fields: Any) -> Dataset:
    """Load the dataset of `{path: ..., ...}` in a pipeline file."""
    return read(root, build(Source, {"path": path, **fields}))


def refusal(root: Path, path: str, **fields: Any) -> str:
    """Return the whole message with which a dataset is refused."""
    with pytest.raises(UsageError) as caught:
        load(root, path, **fields)
    return str(caught.value)


def array(dataset: Dataset, name: str) -> Array:
    """Return the values of an input as an array."""
    values = dataset.inputs[name]
    assert isinstance(values, np.ndarray)
    return values


def labels(dataset: Dataset) -> list[Any]:
    """Return the labels of a dataset."""
    assert dataset.labels is not None
    labels: list[Any] = dataset.labels.tolist()
    return labels
