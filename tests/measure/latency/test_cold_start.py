"""Launches in new processes: what they read, and what a failing one says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from orun.core.targets import Target
from orun.errors import OrunError
from orun.measure.latency.cold_start import Request, launch_cold, read_resident
from orun.measure.session import open_session


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[batch, 3] x) => (float[batch, 3] y) { y = Neg (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    return Request(tmp_path / "model.onnx", Target("cpu"), runs=2)


@pytest.mark.slow
def test_a_launch_reads_itself(request_: Request) -> None:
    reading = launch_cold(request_, {"x": np.zeros((1, 3), np.float32)})
    assert reading.load > 0
    assert reading.first > 0
    assert 0 < reading.before <= reading.held <= reading.peak
    assert reading.arena is None  # nothing was watched


def test_an_arena_grows_by_what_values_take(tmp_path: Path) -> None:
    """Of a chain of two, the value between them and the output: 4 MiB each."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { a = Sigmoid (x) y = Neg (a) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    feeds = {"x": np.zeros(1 << 20, np.float32)}
    request = Request(tmp_path / "model.onnx", Target("cpu"), runs=1, watched=True)
    reading = launch_cold(request, feeds)
    assert reading.arena is not None
    assert 4 << 20 <= reading.arena <= 32 << 20
    assert reading.gpu is None


def test_a_launch_that_fails_says_why(request_: Request) -> None:
    with pytest.raises(OrunError) as error:
        launch_cold(request_, {"x": np.zeros((1, 4), np.float32)})
    assert error.value.problem == "a process that runs model.onnx alone failed"
    assert "Got invalid dimensions for input: x" in error.value.why


def test_an_error_of_orun_in_a_launch_comes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    request = Request(tmp_path / "model.onnx", Target("cpu"), runs=1)
    with pytest.raises(OrunError) as session_error:
        open_session(request.model, request.target)
    with pytest.raises(OrunError) as error:
        launch_cold(request, {"x": np.zeros((1, 3), np.float32)})
    assert error.value.why == str(session_error.value)


@pytest.mark.slow
def test_memory_of_this_process() -> None:
    now, most = read_resident()
    block = np.ones(8_000_000)
    assert read_resident()[0] - now > 60_000_000
    assert read_resident()[1] >= most
    assert block.sum() == 8_000_000
