"""Limits of PyTorch itself at ill-conditioned inputs and in rows that see nothing; right and wrong exports."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.errors import StageFailed
from orun.stages._graph.feeds import Case, Input
from orun.stages._torch.export import bind
from orun.stages._torch.limits import build_limits
from orun.stages.contract import Context
from tests.stages.conftest import MODULES
from tests.stages.modules.small import noisy
from tests.stages.support import StageRun, run_stage
from tests.thin import mostly_slow

SOUND: dict[str, Any] = {
    "inputs": {"sound": {"shape": ["batch", "length"]}},
    "dims": {"length": [400, 800]},
    "outputs": ["scores"],
    "exporter": "torchscript",
}
TEXT: dict[str, Any] = {
    "inputs": {
        "input_ids": {"shape": ["batch", "sequence"], "dtype": "int64", "high": 98},
        "attention_mask": {"shape": ["batch", "sequence"], "dtype": "int64", "fill": "mask"},
    },
    "outputs": ["scores"],
    "exporter": "torchscript",
}


def convert(folder: Path, model: str, params: dict[str, Any]) -> StageRun:
    return run_stage("convert/torch", folder, {"model": f"architectures.py:{model}", **params}, root=MODULES)


@pytest.mark.parametrize(("length", "most"), mostly_slow([(400, 1e-2), (16000, 0.1)], (400, 1e-2)))
def test_a_constant_waveform(tmp_path: Path, length: int, most: float) -> None:
    """Its convolutions yield what is constant but for rounding, which the norms behind them make large."""
    run = convert(tmp_path, "wav2vec2", {**SOUND, "dims": {"length": [length, 2 * length]}})
    assert 1e-4 < run.value("max_abs_error") < most
    random, note = run.notes
    assert random == (
        "the weights of architectures.py:wav2vec2 are drawn at random, as it is a class: name a file of trained ones, "
        "`weights: FILE`, or a function that loads them"
    )
    assert note.startswith("the exported model is off by ")
    assert f" in output 'scores' for highest values at batch=2, length={length}, beyond the tolerance: " in note
    assert ": the PyTorch model differs from itself, in float64 with rounding errors added to its inputs, by up" in note
    assert note.endswith(" there, and 10 times that is allowed")


@pytest.mark.parametrize("length", mostly_slow([400, 8000], 400))
def test_a_wrong_export_of_an_ill_conditioned_model(tmp_path: Path, length: int) -> None:
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, "broken", {**SOUND, "dims": {"length": [length, 2 * length]}})
    assert caught.value.problem == "the exported model disagrees with the PyTorch model in output 'scores'"
    assert caught.value.why.endswith(f"\nfor random values at batch=1, length={2 * length}")


@pytest.mark.slow
def test_a_wrong_export_where_some_rows_see_nothing(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, "misled", TEXT)
    assert caught.value.problem == "the exported model disagrees with the PyTorch model in output 'scores'"


def test_a_wrong_export_of_an_ill_conditioned_input_alone(tmp_path: Path) -> None:
    """Half of it is ill-conditioned there, and the wrong half is not."""
    params = {"inputs": {"x": {"shape": ["n", 64], "low": 0.3, "high": 0.3}}, "outputs": ["steady", "shaky"]}
    run = convert(tmp_path, "normed", {**params, "exporter": "torchscript"})
    assert all("'shaky'" in note for note in run.notes)
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, "misnormed", {**params, "exporter": "torchscript"})
    assert caught.value.problem == "the exported model disagrees with the PyTorch model in output 'steady'"


def test_a_module_without_float64(tmp_path: Path) -> None:
    params = {"inputs": {"x": {"shape": ["n", 2]}}, "outputs": ["y"], "exporter": "torchscript"}
    with pytest.raises(StageFailed, match=r"^the exported model disagrees with the PyTorch model in output 'y'\n"):
        convert(tmp_path, "typed", params)


def test_random_numbers_are_no_rows_that_see_nothing(tmp_path: Path) -> None:
    log = logging.getLogger("test")
    context = Context("stage", {}, tmp_path, tmp_path, None, 0, None, None, lambda: log, lambda *_: None)
    bound = bind(noisy(), [Input("x", "float32", (64,))])
    feed = {"x": np.ones(64, np.float32)}
    (limit,) = build_limits(context, bound).of(Case("", {}, feed), bound(feed))
    assert limit
    assert not limit.arbitrary.any()
