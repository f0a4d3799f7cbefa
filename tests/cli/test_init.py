"""`orun init`: from a model to judged gates in two commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import orun
from orun.cli.main import main


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of two matrix products in an empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    shapes = {"first": (64, 256), "second": (256, 64)}
    weights = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32) / 10, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "mlp.onnx")
    return tmp_path / "mlp.onnx"


def test_two_commands_lead_from_a_model_to_judged_gates(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "mlp.onnx"]) == 0
    written = capsys.readouterr()
    assert written.out.splitlines()[1:] == ["next: orun mlp.yaml"]
    assert written.err.splitlines()[0] == "mlp.onnx: building once to measure what its gates can ask for"
    pipeline = orun.load(model.with_suffix(".yaml"))
    assert [stage.uses for stage in pipeline.stages] == [
        "convert/onnx", "optimize/simplify", "quantize/dynamic", "measure/accuracy", "measure/latency", "release/card",
        "release/bundle",
    ]  # fmt: skip
    result = orun.run(model.with_suffix(".yaml"))
    judged = {verdict.title.partition(" max_regression")[0].rsplit(" ", 2)[0] for verdict in result.verdicts}
    assert {"int8 size", "accuracy cosine.mean", "accuracy cosine.min"} <= judged
    assert {verdict.outcome for verdict in result.verdicts} <= {"passed", "no baseline"}
    measured = [stage.outcome for stage in result.stages if stage.stage not in ("card", "release")]
    assert measured == ["cached"] * 5  # what `init` measured is not measured again


def test_a_dry_run_writes_nothing(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "mlp.onnx", "--dry-run"]) == 0
    assert "    uses: convert/onnx\n    with: {path: mlp.onnx}\n" in capsys.readouterr().out
    assert [path.name for path in model.parent.iterdir()] == ["mlp.onnx"]


def test_a_file_that_is_there_is_not_replaced(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.with_suffix(".yaml").write_text("mine")
    assert main(["init", "mlp.onnx"]) == 2
    assert capsys.readouterr().err == (
        "error: mlp.yaml is there already\n  hint: orun mlp.yaml; or write another: orun init mlp.onnx -o FILE\n"
    )
    assert model.with_suffix(".yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.onnx", ["there is no none.onnx", "hint: name a model: a file, a folder, or file.py:function"]),
        (
            "forest.joblib",
            [
                "forest.joblib was not read: it is a pickle, which can run any code",
                "hint: if you know where it comes from: orun init forest.joblib --trust",
            ],
        ),
        (
            "net.py:load",
            [
                "net.py:load does not say what it takes",
                "its forward has the parameters input, and PyTorch keeps no shapes",
                "hint: orun init net.py:load --input 'input=float32[batch,...]'",
            ],
        ),
    ],
)
def test_models_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str, message: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("forest.joblib").write_bytes(b"")
    Path("net.py").write_text("import torch\n\ndef load():\n    return torch.nn.Linear(2, 2)\n")
    assert main(["init", source]) == 2
    assert capsys.readouterr().err == "error: " + "\n  ".join(message) + "\n"
