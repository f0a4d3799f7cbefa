"""The docstring task of `pipelines/docs.py`, on this Python's own library."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from orun.measure.dataset import Dataset
from orun.stages.code import load_function

PIPELINES = Path(__file__).parents[2] / "pipelines"
DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from docs import pairs
print(hashlib.sha256(repr(pairs()).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def pairs() -> Dataset:
    return cast("Dataset", load_function(PIPELINES, "docs.py:pairs")())


def test_enough_pairs_with_their_own_right_answers(pairs: Dataset) -> None:
    assert len(pairs) == 320
    assert pairs.candidates is not None
    assert pairs.labels is not None
    assert pairs.labels.tolist() == list(range(320))
    assert all(len(values) == 320 for values in pairs.candidates.values())


def test_texts_are_different(pairs: Dataset) -> None:
    assert pairs.candidates is not None
    for part in (pairs.inputs, pairs.candidates):
        assert len({tuple(ids) for ids in part["input_ids"]}) == 320


def test_every_mask_length_occurs_so_that_padding_is_exercised(pairs: Dataset) -> None:
    assert pairs.candidates is not None
    padding = set()
    for part in (pairs.inputs, pairs.candidates):
        for ids, mask, types in zip(
            *(part[name] for name in ("input_ids", "attention_mask", "token_type_ids")), strict=True
        ):
            assert ids.shape == mask.shape == types.shape
            assert len(ids) % 16 == 0
            assert len(ids) <= 96
            assert np.array_equal(mask, ids != 0)
            assert not types.any()
            padding.add(int((mask == 0).sum()))
    assert padding == set(range(16))


@pytest.mark.slow
def test_the_choice_hangs_on_no_hash_seed(pairs: Dataset) -> None:
    """For this process Python drew another seed than 1."""
    process = subprocess.run(
        [sys.executable, "-c", DIGEST, str(PIPELINES)],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == hashlib.sha256(repr(pairs).encode()).hexdigest() + "\n"
