"""What is said of a compiled model that is loaded back, by models that the CPU runs as they are."""

from __future__ import annotations

import logging
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
from tests.stages.conftest import export_decoder
from tests.stages.support import artifact, run_stage

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y, float[2] z) {{ y = Neg (x) z = {} (y) }}'
)
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
    return Context(
        stage="engine",
        key="key",
        inputs={"model": before},
        output=Path(shutil.copytree(after, folder / "output")),
        root=folder,
        target=Target("cpu"),
        seed=0,
        timeout=None,
        lineage=None,
        open_log=lambda: logging.getLogger(__name__),
        progress=progress,
    )


@pytest.mark.parametrize(("provider", "counts"), [("CPUExecutionProvider", [2, 0]), ("OtherExecutionProvider", [0, 2])])
def test_what_the_provider_took_and_what_is_left(tmp_path: Path, provider: str, counts: list[float]) -> None:
    engine = Engine(provider, "cache", onnxruntime.__version__, {}, {})
    found = load_back(compiled(tmp_path, "Abs"), engine, TRIES, 1, Tolerance(0, 0))
    assert [found["compiled"].value, found["left"].value] == counts
    assert found["size"].value == (tmp_path / "output" / MODEL).stat().st_size
    assert found["max_abs_error"].value == 0


def test_another_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        load_back(compiled(tmp_path, "Identity"), CPU, TRIES, 1, Tolerance(1, 0))
    assert str(caught.value) == (
        "the compiled model disagrees with the uncompiled model in output 'z'\n"
        "  1 of 2 values are further off than 1 + 0 x |reference|; the worst is -1 instead of 1 at [0]\n"
        "  for two values\n"
        "  hint: raise `atol` or `rtol` if the provider calculates in a smaller type"
    )


def test_rows_that_see_nothing_are_not_compared(tmp_path: Path) -> None:
    """A float16 model stands for one that a provider computes in a smaller type."""
    model = export_decoder(tmp_path, "gpt2", "mask")
    half = run_stage("optimize/float16", tmp_path, {"atol": 0.05, "rtol": 0.05}, inputs={"model": model}).output
    feed = {
        "input_ids": np.arange(8, dtype=np.int64).reshape(2, 4),
        "attention_mask": np.array([[0, 0, 1, 1], [1, 1, 1, 1]], np.int64),
    }
    context = stage_context(tmp_path, model, half)
    metrics = load_back(context, CPU, [Case("a text behind padding", {}, feed)], 1, Tolerance(0.05, 0.05))
    assert metrics["max_abs_error"].value < 0.05
    assert context.notes == [
        "198 of 792 values of output 'scores' were not compared: they depend on attention rows that see nothing"
    ]


def test_what_is_written_while_it_is_loaded_is_compiled_anew(tmp_path: Path) -> None:
    def write(*_: object) -> None:
        (tmp_path / "output" / "new.blob").write_bytes(b"1")

    context = compiled(tmp_path, "Abs", write)
    with pytest.raises(StageFailed) as caught:
        load_back(context, CPU, TRIES, 1, Tolerance(0, 0))
    assert str(caught.value) == (
        "CPUExecutionProvider compiled the model anew when it was loaded back\n  it wrote new.blob"
    )
