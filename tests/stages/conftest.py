"""Models that several kinds are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.support import run_stage

MODULES = Path(__file__).parent / "modules"
TINY_BERT = {
    "model": "tiny_bert.py:load",
    "inputs": {
        "input_ids": {"shape": ["batch", "sequence"], "dtype": "int64", "high": 99},
        "attention_mask": {"shape": ["batch", "sequence"], "dtype": "int64", "fill": "mask"},
    },
    "outputs": ["hidden"],
    "exporter": "torchscript",
}


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers, four heads and width 32, simplified."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    exported = run_stage("convert/torch", folder, TINY_BERT, root=MODULES)
    return run_stage("optimize/simplify", folder, inputs={"model": exported.output}).output
