"""What results are bound to, by class."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from orun.environment import device
from orun.errors import OrunError
from orun.targets import Provider, Target

PORTABLE = {
    "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    "system": sys.platform,
    "architecture": platform.machine(),
}


def test_a_portable_result_is_bound_to_the_interpreter_and_the_platform_alone() -> None:
    assert device.fingerprint("portable", None) == PORTABLE


def test_each_class_is_bound_to_more() -> None:
    portable, bound, measured = (set(device.fingerprint(name, None)) for name in ("portable", "device", "measurement"))
    assert bound - portable == {"cpu", "cpu flags", "cores", "runtime"}
    assert measured - bound == {"host", "governor", "maximum clock"}


def test_the_fingerprint_is_the_same_each_time() -> None:
    assert device.fingerprint("measurement", None) == device.fingerprint("measurement", None)


def test_a_target_brings_the_versions_of_its_libraries() -> None:
    target = Target("vino", (Provider("OpenVINOExecutionProvider"),))
    assert device.fingerprint("device", target)["openvino"] == "none"


def test_a_gpu_that_cannot_be_read_is_never_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    device.gpu.cache_clear()
    with pytest.raises(OrunError) as caught:
        device.fingerprint("device", Target("gpu", (Provider("CUDAExecutionProvider"),)))
    assert str(caught.value) == (
        "the GPU of this machine cannot be read, so nothing built for it can be told from another's\n"
        "  nvidia-smi: [Errno 2] No such file or directory: 'nvidia-smi'\n"
        "  hint: run nvidia-smi, or name a target without CUDA and TensorRT"
    )


def test_the_gpu_is_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 9.0, 143771, 580.95.05'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    device.gpu.cache_clear()
    assert device.gpu() == {
        "gpu name": "NVIDIA H200",
        "gpu compute_cap": "9.0",
        "gpu memory.total": "143771",
        "gpu driver_version": "580.95.05",
    }
    device.gpu.cache_clear()
