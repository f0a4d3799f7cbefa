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
    """The dataset of `{path: ..., ...}`, as a pipeline file says it."""
    return read(root, build(Source, {"path": path, **fields}))


def refusal(root: Path, path: str, **fields: Any) -> str:
    """The whole message with which it is refused."""
    with pytest.raises(UsageError) as caught:
        load(root, path, **fields)
    return str(caught.value)


def array(dataset: Dataset, name: str) -> Array:
    """The values of an input, which are of one shape."""
    values = dataset.inputs[name]
    assert isinstance(values, np.ndarray)
    return values


def labels(dataset: Dataset) -> list[Any]:
    """Its labels."""
    assert dataset.labels is not None
    labels: list[Any] = dataset.labels.tolist()
    return labels
