"""Time on a device's stream: by a library that counts in the place of the CUDA driver; on a GPU where there is one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnxruntime import InferenceSession

from orun.core.targets import Provider, Target
from orun.errors import OrunError, UsageError
from orun.measure.binding import bind_submission
from orun.measure.latency import cuda_streams
from orun.measure.latency.cuda_streams import (
    ROUND,
    Driver,
    Stream,
    StreamTimes,
    concatenate_streams,
    has_stream,
    make_stream,
    time_stream,
)
from orun.measure.latency.launch import Pace, run_launch, time_streams
from orun.measure.workers import WorkerProcess
from tests.measure.support import ONE_THREAD, WIDTH, case_of, save_model

COMPILER = shutil.which("cc")
compiled = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
CUDA = Provider("CUDAExecutionProvider", {"device_id": "0"})
TENSORRT = Provider("TensorrtExecutionProvider", {"trt_fp16_enable": "1"})
CPU = Provider("CPUExecutionProvider")


@pytest.fixture
def driver(tmp_path: Path) -> str:
    """A new copy for each test: what it counts lies in the library."""
    built = tmp_path / "libcounting.so"
    source = Path(__file__).with_name("counting_driver.c")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", built, source], check=True)
    return str(built)


@compiled
def test_an_inference_takes_from_the_end_of_the_one_before_to_its_own(driver: str) -> None:
    events, submitted = Stream(Driver(driver), 0, ROUND + 1), list[int]()
    times = time_stream(events, lambda: submitted.append(0), 0.0)
    assert times.device.tolist() == pytest.approx([0.001] * 2 * ROUND)
    assert times.host.shape == (2 * ROUND,)
    assert (times.host > 0).all()
    assert len(submitted) == 2 * (ROUND + 1)  # the first of a round keeps the device busy, and does not count


@compiled
def test_rounds_go_on_for_the_time_that_they_are_given(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))
    clock = SimpleNamespace(perf_counter=lambda: next(seconds), thread_time_ns=lambda: 0)
    monkeypatch.setattr(cuda_streams, "time", clock)
    times = time_stream(Stream(Driver(driver), 0, ROUND + 1), lambda: None, 3.5)
    assert len(times.device) == 5 * ROUND  # two, and the clock is read before each of the others
    assert len(concatenate_streams([times, times]).host) == 10 * ROUND


@compiled
def test_every_provider_of_the_device_is_given_the_stream(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_streams, "DRIVER", driver)
    target = Target("gpu", (TENSORRT, CUDA, CPU))
    assert has_stream(target)
    stream, with_stream = make_stream(target)
    option = {"user_compute_stream": str(stream.address)}
    assert stream.address > 0
    assert with_stream == Target(
        "gpu",
        (
            Provider(TENSORRT.name, {**TENSORRT.options, **option}),
            Provider(CUDA.name, {**CUDA.options, **option}),
            CPU,
        ),
    )


@compiled
def test_what_the_driver_refuses_is_said(driver: str) -> None:
    with pytest.raises(OrunError) as refused:
        Stream(Driver(driver), 1, ROUND + 1)
    assert str(refused.value) == "the CUDA driver refused cuDeviceGet\n  error 101: invalid device ordinal"
    stream = Stream(Driver(driver), 0, 2)
    with pytest.raises(OrunError) as refused:
        stream.measure_between(0, 1)
    assert str(refused.value) == "the CUDA driver refused cuEventElapsedTime\n  error 600: device not ready"


def test_models_are_timed_in_an_order_and_back() -> None:
    calls = list[str]()

    def worker(name: str) -> Any:
        def time_stream(seconds: float) -> StreamTimes:
            calls.append(f"{name} {seconds}")
            return StreamTimes(np.array([0.5]), np.array([0.25]))

        def open_stream(warmup: float) -> None:
            calls.append(f"open {name} {warmup}")

        return SimpleNamespace(open_stream=open_stream, time_stream=time_stream)

    pace = Pace(warmup=0.05, samples=10, alone=1.0, abba_seconds=0.2)
    streams = time_streams({"model": worker("model"), "reference": worker("reference")}, pace, Random(1))
    assert calls[:2] == ["open model 0.05", "open reference 0.05"]
    assert calls[2:] in (
        ["model 0.1", "reference 0.1", "reference 0.1", "model 0.1"],
        ["reference 0.1", "model 0.1", "model 0.1", "reference 0.1"],
    )
    assert {name: times.device.tolist() for name, times in streams.items()} == {
        "model": [0.5, 0.5],
        "reference": [0.5, 0.5],
    }
    assert time_streams({}, pace, Random(1)) == {}


def test_without_a_driver() -> None:
    with pytest.raises(UsageError) as refused:
        Driver("libcuda-of-nobody.so.1")
    assert str(refused.value) == (
        "cannot measure time on the device: this machine has no CUDA driver\n"
        "  libcuda-of-nobody.so.1: cannot open shared object file: No such file or directory\n"
        "  hint: leave out `device_time`"
    )


def test_a_target_whose_first_provider_computes_elsewhere_has_none() -> None:
    assert not has_stream(Target("cpu"))
    assert not has_stream(Target("mixed", (CPU, CUDA)))


def test_an_inference_is_submitted_with_what_is_bound(tmp_path: Path) -> None:
    """On the CPU, where submitting is all."""
    session = InferenceSession(save_model(tmp_path / "model.onnx"), providers=[CPU.name])
    bindings = list[Any]()

    def run(*arguments: Any) -> None:
        bindings.append(arguments)
        session.run_with_iobinding(*arguments)

    watched: Any = SimpleNamespace(
        get_providers=session.get_providers,
        get_provider_options=session.get_provider_options,
        get_outputs=session.get_outputs,
        io_binding=session.io_binding,
        run_with_iobinding=run,
    )
    submit = bind_submission(watched, {"x": np.ones((4, WIDTH), np.float32)})
    submit()
    submit()
    (first, options), (second, _) = bindings
    assert first is second
    assert options.get_run_config_entry("disable_synchronize_execution_providers") == "1"
    assert second.get_outputs()[0].numpy().tolist() == np.ones((4, WIDTH)).tolist()


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no GPU")
def test_on_a_gpu(tmp_path: Path) -> None:
    target = Target("gpu", (CUDA, CPU))
    fast = replace(case_of(save_model(tmp_path / "fast.onnx", 4), target), bound=True, streamed=True)
    slow = replace(case_of(save_model(tmp_path / "slow.onnx", 64), target), bound=True, streamed=True)
    pace = Pace(warmup=0.05, samples=10, alone=1.0, abba_seconds=0.2)
    launch = run_launch({"model": fast, "reference": slow}, pace, Random(0), WorkerProcess)
    assert set(launch.streamed) == {"model", "reference"}
    assert 0 < np.median(launch.streamed["model"].device) < np.median(launch.streamed["reference"].device)
    mixed = {"model": fast, "reference": replace(slow, target=ONE_THREAD, streamed=False)}
    assert set(run_launch(mixed, pace, Random(0), WorkerProcess).streamed) == {"model"}
