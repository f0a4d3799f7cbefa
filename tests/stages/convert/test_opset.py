from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from orun.errors import StageFailed
from orun.stages._graph import io as onnx_io
from tests.stages.models import WORDY, parse
from tests.stages.support import artifact, run_stage

OLD = """
<ir_version: 7, opset_import: ["" : 11]>
old (float[n, 4] x) => (float[n, 1, 4] y) { a = Unsqueeze <axes = [1]> (x) y = Softmax <axis = 2> (a) }
"""
GELU = """
<ir_version: 9, opset_import: ["" : 20]>
gelu (float[n, 4] x) => (float[n, 4] y) { y = Gelu (x) }
"""


def versions(path: Path) -> dict[str, int]:
    return {item.domain: item.version for item in onnx.load(path).opset_import}


def test_up_and_the_same_figures(tmp_path: Path) -> None:
    run = run_stage("convert/opset", tmp_path, {"version": 17}, inputs={"model": artifact(tmp_path, parse(OLD))})
    assert versions(run.model) == {"": 17}
    assert run.value("max_abs_error") < 1e-6
    assert run.value("nodes_before") == 2
    onnx.checker.check_model(run.model, full_check=True)


def test_down(tmp_path: Path) -> None:
    model = parse(OLD.replace("11]", "12]"))
    run = run_stage("convert/opset", tmp_path, {"version": 11}, inputs={"model": artifact(tmp_path, model)})
    assert versions(run.model) == {"": 11}
    assert run.value("max_abs_error") < 1e-6


def test_external_data_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    folder = artifact(tmp_path, parse(WORDY))
    onnx_io.save(parse(WORDY), folder / "model.onnx", external=True)
    run = run_stage("convert/opset", tmp_path, {"version": 21}, inputs={"model": folder})
    assert sorted(file.name for file in run.output.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert run.value("max_abs_error") == 0


def test_a_fused_model_keeps_its_own_operators(tmp_path: Path, tiny_bert: Path) -> None:
    fused = run_stage("optimize/transformer", tmp_path, inputs={"model": tiny_bert})
    run = run_stage("convert/opset", tmp_path, {"version": 21}, inputs={"model": fused.output})
    assert versions(run.model) == {"": 21, "com.microsoft": 1}
    assert run.value("max_abs_error") < 1e-6


def test_an_operator_that_the_version_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        run_stage("convert/opset", tmp_path, {"version": 17}, inputs={"model": artifact(tmp_path, parse(GELU))})
    assert caught.value.problem == "ONNX cannot convert the model to operator set 17"
    assert "No Previous Version of Gelu exists" in caught.value.why
    assert caught.value.hint == (
        "export the model at that version: `opset` of `convert/torch`; the log has the whole message"
    )


OF_OLD = """
<ir_version: 3, opset_import: ["" : 6]>
pad (float[1, n] x) => (float[1, m] y) { y = Pad <pads = [0, 1, 0, 2]> (x) }
"""


def test_what_the_converter_stores_in_a_model_of_old(tmp_path: Path) -> None:
    """Up to IR version 3 whatever is stored must be an input too, which the pads are not."""
    run = run_stage("convert/opset", tmp_path, {"version": 13}, inputs={"model": artifact(tmp_path, parse(OF_OLD))})
    model = onnx.load(run.model)
    assert (model.ir_version, model.opset_import[0].version, len(model.graph.initializer)) == (4, 13, 1)
