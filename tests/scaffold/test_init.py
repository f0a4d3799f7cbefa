"""`orun.init`: the text of a pipeline, and a pipeline with measured gates."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import orun
from orun.errors import UsageError

MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }'  # noqa: E501


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the working folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), "mlp.onnx")
    return Path("mlp.onnx")


def test_the_text_without_gates(model: Path) -> None:
    text = orun.init(model)
    assert [path.name for path in Path.cwd().iterdir()] == ["mlp.onnx"]
    Path("mlp.yaml").write_text(text, encoding="utf-8")
    pipeline = orun.load("mlp.yaml")
    assert [stage.uses for stage in pipeline.stages][:2] == ["convert/onnx", "optimize/simplify"]
    assert orun.init(model, goal="size<1MB") != text


def test_a_file_that_is_there_stays(model: Path) -> None:
    Path("p.yaml").touch()
    with pytest.raises(UsageError) as caught:
        orun.init(model, "p.yaml")
    assert (caught.value.what, caught.value.hint) == ("p.yaml is there already", "orun p.yaml")


def test_unknown_options_are_refused_before_anything_is_read(model: Path) -> None:
    with pytest.raises(UsageError):
        orun.init(model, goal="sice<1MB")
    with pytest.raises(UsageError):
        orun.init(model, target="cdua")


@pytest.mark.slow
def test_a_file_with_measured_gates(model: Path) -> None:
    text = orun.init(model, "made/mlp.yaml")
    assert Path("made/mlp.yaml").read_text(encoding="utf-8") == text
    assert {verdict.outcome for verdict in orun.run("made/mlp.yaml").verdicts} <= {"passed", "no baseline"}
