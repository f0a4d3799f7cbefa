"""Messages on compiled models that are loaded back, by models that the CPU runs as they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from orun.core.targets import Target
from orun.errors import StageFailed
from orun.measure.engines import Engine
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case
from orun.stages.compile._check import load_back
from orun.stages.contract import MODEL, Context
from tests.stages.support import artifact, make_context, run_stage

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y, float[2] z) {{ y = Neg (x) z = {} (y) }}'
)
ATTENTION = """
<ir_version: 9, opset_import: ["" : 20]>
attention (float[n, 3, 4] x, bool[n, 3, 3] shown) => (float[n, 3, 4] y)
<float none = {0}, float away = {-3.4e38},
 float[4, 4] w = {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8, 0.9, 1.0, -1.1, 1.2, 1.3, 1.4, 1.5, -1.6}>
{
  keys = MatMul (x, w)
  turned = Transpose <perm = [0, 2, 1]> (keys)
  scores = MatMul (x, turned)
  bias = Where (shown, none, away)
  hidden = Add (scores, bias)
  shares = Softmax (hidden)
  y = MatMul (shares, x)
}
"""
TRIES = [Case("two values", {}, {"x": np.array([1, -2], np.float32)})]
CPU = Engine("CPUExecutionProvider", "cache", onnxruntime.__version__, {}, {})


def compiled(folder: Path, last: str, progress: Callable[[int, int, str], None] = lambda *_: None) -> Context:
    """A stage whose result ends in another operator than the model before it, Abs."""
    before, after = (artifact(folder, onnx.parser.parse_model(TEXT.format(name))) for name in ("Abs", last))
    return stage_context(folder, before, after, progress)


def stage_context(
    folder: Path, before: Path, after: Path, progress: Callable[[int, int, str], None] = lambda *_: None
) -> Context:
    """A stage with a model before it, and with its result."""
    output = Path(shutil.copytree(after, folder / "output"))
    return make_context(
        folder, key="key", inputs={"model": before}, output=output, target=Target("cpu"), progress=progress
    )


@pytest.mark.slow
def test_nodes_that_another_provider_runs_are_left(tmp_path: Path) -> None:
    engine = Engine("OtherExecutionProvider", "cache", onnxruntime.__version__, {}, {})
    metrics = load_back(compiled(tmp_path, "Abs"), engine, TRIES, 1, Tolerance(0, 0))
    assert {name: metrics[name] for name in ("compiled", "left", "max_abs_error", "size")} == {
        "compiled": 0,
        "left": 2,
        "max_abs_error": 0,
        "size": (tmp_path / "output" / MODEL).stat().st_size,
    }


def test_a_model_that_no_process_can_open(tmp_path: Path) -> None:
    context = compiled(tmp_path, "Abs")
    (tmp_path / "output" / MODEL).write_bytes(b"none")
    with pytest.raises(StageFailed) as caught:
        load_back(context, CPU, TRIES, 1, Tolerance(0, 0))
    assert str(caught.value) == (
        "the compiled model cannot be loaded back\n"
        "  ONNX Runtime cannot open model.onnx for target 'cpu'\n"
        "    output/model.onnx: Protobuf parsing failed.\n"
        "    hint: see what this machine can run: orun doctor"
    )


def test_another_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        load_back(compiled(tmp_path, "Identity"), CPU, TRIES, 1, Tolerance(1, 0))
    assert str(caught.value) == (
        "the compiled model disagrees with the uncompiled model in output 'z'\n"
        "  1 of 2 values are further off than 1 + 0 x |reference|; the worst is -1 instead of 1 at [0]\n"
        "  for two values\n"
        "  hint: raise `atol` or `rtol` if the provider calculates in a smaller type"
    )


@pytest.mark.slow
def test_rows_that_see_nothing_are_not_compared(tmp_path: Path) -> None:
    """A float16 model stands for one that a provider computes in a smaller type."""
    model = artifact(tmp_path, onnx.parser.parse_model(ATTENTION))
    loose = {"atol": 0.01, "rtol": 0.01}
    half = run_stage("optimize/float16", tmp_path, loose, inputs={"model": model}).output
    rows = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
    case = Case("a text behind padding", {}, {"x": rows, "shown": np.array([[[0, 0, 0], [0, 1, 0], [0, 1, 1]]], bool)})
    context = stage_context(tmp_path, model, half)
    metrics = load_back(context, CPU, [case], 1, Tolerance(0.01, 0.01))
    error, compiled_nodes = metrics["max_abs_error"], metrics["compiled"]
    assert isinstance(error, float)
    assert isinstance(compiled_nodes, int)
    assert 0 < error < 0.01
    assert (compiled_nodes > 0, metrics["left"]) == (True, 0)
    assert context.notes == [
        "4 of 12 values of output 'y' were not compared: they depend on attention rows that see nothing"
    ]


@pytest.mark.slow
def test_what_is_written_while_it_is_loaded_is_compiled_anew(tmp_path: Path) -> None:
    def write(*_: object) -> None:
        (tmp_path / "output" / "new.blob").write_bytes(b"1")

    context = compiled(tmp_path, "Abs", write)
    with pytest.raises(StageFailed) as caught:
        load_back(context, CPU, TRIES, 1, Tolerance(0, 0))
    assert str(caught.value) == (
        "CPUExecutionProvider compiled the model anew when it was loaded back\n  it wrote new.blob"
    )
