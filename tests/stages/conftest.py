"""Models for tests of several kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.shared import make_once
from tests.stages.support import run_stage

MODULES = Path(__file__).parent / "modules"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCORER: dict[str, Any] = {
    "model": "small.py:scorer",
    "inputs": {
        "ids": {"shape": ["batch", "length"], "dtype": "int64", "high": 10},
        "mask": {"shape": ["batch", "length"], "dtype": "int64", "fill": "mask"},
    },
    "outputs": ["embedding", "scores"],
}
TINY_BERT: dict[str, Any] = {
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
    return make_once(tmp_path_factory, "tiny-bert", export_tiny_bert)


def export_tiny_bert(folder: Path) -> Path:
    exported = run_stage("convert/torch", folder, TINY_BERT, root=MODULES)
    return run_stage("optimize/simplify", folder, inputs={"model": exported.output}).output


@pytest.fixture(scope="session")
def fused_bert(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """The same BERT with fused attention, layer norms, embeddings and activations."""

    def fuse(folder: Path) -> Path:
        return run_stage("optimize/transformer", folder, inputs={"model": tiny_bert}).output

    return make_once(tmp_path_factory, "fused-bert", fuse)


def export_decoder(folder: Path, family: str, fill: str) -> Path:
    """The folder of a small decoder of `modules/architectures.py`, whose mask is made up by `fill`."""
    axes = ["batch", "sequence"]
    params: dict[str, Any] = {
        "model": f"architectures.py:{family}",
        "inputs": {
            "input_ids": {"shape": axes, "dtype": "int64", "high": 98},
            "attention_mask": {"shape": axes, "dtype": "int64", "fill": fill},
        },
        "outputs": ["scores"],
        "exporter": "torchscript",
    }
    return run_stage("convert/torch", folder, params, root=MODULES).output


class Exports:
    """Exported models of the families of `benchmarks/families.py`, each made once a session."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory

    def __call__(self, family: str, exporter: str = "torchscript", attention: str = "", opset: int = 20) -> Path:
        """The folder of a family's model; `attention` is the last that it has, which is sdpa for most."""
        from benchmarks.families import FAMILIES, export

        key = (family, exporter, attention or FAMILIES[family].implementations[-1], opset)

        def make(folder: Path) -> Path:
            return run_stage("convert/torch", folder, export(*key), root=BENCHMARKS).output

        return make_once(self._factory, "-".join(map(str, key)), make)


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """Exported families of transformers."""
    return Exports(tmp_path_factory)


@pytest.fixture(scope="session")
def network_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks of `modules/networks.py` in every kind of file of Keras and TensorFlow."""

    def save(folder: Path) -> Path:
        from tests.stages.modules.network_files import save

        save(folder)
        return folder

    return make_once(tmp_path_factory, "network-files", save)
