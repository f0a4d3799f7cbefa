"""Models in processes of another Python; here it is the same one, started anew."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from orun.core.targets import Interpreter, Target
from orun.errors import OrunError, UsageError
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.foreign_process import RemoteSession
from orun.measure.framework_model import Feed, Value
from orun.measure.session import open_session
from orun.measure.workers import WorkerProcess

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 2] x) => (float[n, 2] y, int64[2] size) { y = Relu(x)
size = Shape(x) }
"""
HERE = Interpreter(sys.executable, str(Path(__file__).parents[2]))
ELSEWHERE = Target("elsewhere", session={"intra_op_num_threads": 1}, interpreter=HERE)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_it_answers_as_a_session_does(model: Path) -> None:
    with RemoteSession(model, ELSEWHERE) as session:
        assert session.get_inputs() == [Value("x", "tensor(float)", ["n", 2])]
        assert [value.name for value in session.get_outputs()] == ["y", "size"]
        y, size = session.run(None, {"x": np.array([[1, -1]], np.float32)})
        assert (y.tolist(), size.tolist()) == ([[1, 0]], [1, 2])
        assert session.run(["size"], {"x": np.ones((3, 2), np.float32)})[0].tolist() == [3, 2]
        with pytest.raises(UsageError, match=r"model\.onnx does not run"):
            session.run(None, {"z": np.ones((1, 2), np.float32)})


@pytest.mark.slow
def test_an_error_there_is_one_here(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(UsageError) as caught:
        RemoteSession(tmp_path / "model.onnx", ELSEWHERE)
    assert caught.value.problem == "ONNX Runtime cannot open model.onnx for target 'elsewhere'"


class Broken:
    """A model of a framework that does not run."""

    title = "Frame 1.0"

    def __call__(self, feed: Feed) -> list[np.ndarray]:
        del feed
        raise RuntimeError("first\nsecond\nthird\nfourth")

    def bind(self, feed: Feed) -> Callable[[], object]:
        return lambda: self(feed)


@pytest.mark.slow
def test_the_source_model_is_named_if_it_does_not_run(model: Path) -> None:
    with RemoteSession(model, ELSEWHERE, Broken) as session, pytest.raises(UsageError) as caught:
        session.run(None, {"x": np.ones((1, 2), np.float32)})
    assert str(caught.value) == "the source model (Frame 1.0) does not run\n  first\n  second\n  third"


def test_no_session_of_it_is_made_in_this_process(model: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_session(model, ELSEWHERE)
    assert str(caught.value) == (
        "target 'elsewhere' has an environment of its own, and this stage opens models in its own process\n"
        "  hint: run the stage in that environment: `environment:` beside `uses`"
    )


def test_a_process_that_dies_is_told(model: Path) -> None:
    with RemoteSession(model, ELSEWHERE) as session:
        os.kill(session.process.pid, signal.SIGKILL)
        with pytest.raises(OrunError) as caught:
            session.run(None, {"x": np.ones((1, 2), np.float32)})
    assert str(caught.value) == (
        "the process that runs a model of another environment died\n  exit status -9 in request 'run'"
    )


def test_a_worker_of_another_environment_is_timed_like_any(model: Path) -> None:
    with WorkerProcess(BenchmarkCase(model, ELSEWHERE, {"x": np.ones((1, 2), np.float32)})) as worker:
        opened = worker.open(0.2)  # of one inference alone, an interruption would look like another thread
        assert (opened.work.alone, opened.processor) == (True, True)
        assert len(worker.time(5).wall) == 5
        assert worker.pid != os.getpid()
        assert worker.alive
