"""The pipeline of a model of more than 2 GB, with smaller matrices; its weights are external all the same."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import orun

PIPELINE = Path(__file__).parents[2] / "pipelines" / "big.yaml"
WIDTH = 128


@pytest.mark.slow  # weights in a second file are quick, in the tests of each kind
def test_external_data_goes_all_the_way(tmp_path: Path) -> None:
    pipeline = orun.load(PIPELINE, {"vars.layers": 3, "vars.width": WIDTH})
    result = orun.run(pipeline, store=tmp_path / "store")
    assert result.exit_code == 0, result
    stages = {stage.stage: stage for stage in result.stages}
    assert stages["wide"].metrics["weights"].value == 3 * 4 * WIDTH**2
    model = onnx.load(Path(stages["wide"].out or "", "model.onnx"), load_external_data=False)
    assert [onnx.external_data_helper.uses_external_data(tensor) for tensor in model.graph.initializer] == [True] * 3
    assert stages["int4"].metrics["quantized"].value == 3
    assert stages["accuracy"].metrics["cosine.min"].value > 0.9
