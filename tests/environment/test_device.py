"""Device facts that results are bound to, by class."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from orun.core.targets import Provider, Target
from orun.environment import device, processor
from orun.environment.call_cache import forget
from orun.errors import DeviceUnknown

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


X86 = """processor\t: {core}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu vme amx_int8
"""
ARM = """processor\t: {core}
BogoMIPS\t: 2100.00
Features\t: fp asimd i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: {part}
CPU revision\t: 1
"""


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that takes the place of /proc/cpuinfo."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "CPUINFO", path)
    processor.read_cpu.cache_clear()
    yield path
    processor.read_cpu.cache_clear()


@pytest.mark.parametrize("cores", [1, 2, 300])
def test_the_processor_is_that_of_the_first_core(cpuinfo: Path, cores: int) -> None:
    cpuinfo.write_text("\n".join(X86.format(core=core) for core in range(cores)) + "\n")
    models = processor.read_cpu()
    assert models["cpu"] == "Intel(R) Xeon(R) Processor"
    assert models["cpu flags"] == blake3(b"amx_int8 fpu vme").hexdigest()[:16]


@pytest.mark.parametrize(
    ("flags", "cut"),
    [
        ("fma avx2", True),
        ("avx2 avx512f", True),
        ("avx2 avx_vnni", False),
        ("avx2 avx512_vnni", False),
        ("sse4_1", False),
    ],
)
def test_sums_of_8_bit_products_are_cut_off_without_vnni(cpuinfo: Path, flags: str, cut: bool) -> None:
    cpuinfo.write_text(X86.format(core=0).replace("fpu vme amx_int8", flags))
    assert processor.saturates() is cut


def test_a_processor_of_arm_is_known_by_its_numbers(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux gives it no name: two of different makes would pass for one."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(platform, "processor", lambda: "")
    models = []
    for part in ("0xd0c", "0xd40"):
        cpuinfo.write_text("\n".join(ARM.format(core=core, part=part) for core in range(2)))
        processor.read_cpu.cache_clear()
        models.append(processor.read_cpu()["cpu"])
    assert models == ["aarch64 0x41 0xd0c 0x1 1", "aarch64 0x41 0xd40 0x1 1"]
    cpuinfo.unlink()
    processor.read_cpu.cache_clear()
    assert processor.read_cpu()["cpu"] == "aarch64"


def test_variables_by_which_runtimes_choose_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ORT_DISABLE_TELEMETRY": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
    }.items():
        monkeypatch.setenv(name, value)
    assert device.fingerprint("device", None)["settings"] == "NVIDIA_TF32_OVERRIDE=0 ONEDNN_MAX_CPU_ISA=AVX2"
    assert device.fingerprint("portable", None) == PORTABLE


def test_a_target_brings_the_versions_of_its_libraries() -> None:
    target = Target("vino", (Provider("OpenVINOExecutionProvider"),))
    assert device.fingerprint("device", target)["openvino"] == "none"


def test_a_gpu_that_cannot_be_read_is_never_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    device.read_gpu.cache_clear()
    with pytest.raises(DeviceUnknown) as caught:
        device.fingerprint("device", Target("gpu", (Provider("CUDAExecutionProvider"),)))
    assert str(caught.value) == (
        "the GPU of this machine cannot be read, so nothing built for it can be told from another's\n"
        "  nvidia-smi: [Errno 2] No such file or directory: 'nvidia-smi'\n"
        "  hint: run nvidia-smi, or name a target without CUDA and TensorRT"
    )


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program of that name with two GPUs, which notes what it was asked."""
    program = tmp_path / "nvidia-smi"
    path = tmp_path / "asked"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {path}\n'
        'case "$*" in *--id=1) echo "NVIDIA L4, 8.9, 23034, [N/A], 580.95.05";;'
        ' *) echo "NVIDIA H200, 9.0, 143771, Disabled, 580.95.05";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device.read_gpu.cache_clear()
    yield path
    device.read_gpu.cache_clear()


def test_the_gpu_is_read_from_nvidia_smi(nvidia_smi: Path) -> None:
    assert device.read_gpu() == {
        "gpu name": "NVIDIA H200",
        "gpu compute_cap": "9.0",
        "gpu memory.total": "143771",
        "gpu mig.mode.current": "Disabled",
        "gpu driver_version": "580.95.05",
    }
    assert nvidia_smi.read_text().endswith("--format=csv,noheader,nounits --id=0\n")


def test_the_gpu_is_the_one_that_the_target_uses(nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = Target("gpu", (Provider("CUDAExecutionProvider", {"device_id": "1"}),))
    assert device.fingerprint("device", second)["gpu name"] == "NVIDIA L4"
    device.read_gpu.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert device.read_gpu()["gpu name"] == "NVIDIA L4"
    assert "--id=1" in nvidia_smi.read_text()


def test_an_engine_of_tensorrt_is_bound_to_its_version(
    nvidia_smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del nvidia_smi
    target = Target("trt", (Provider("TensorrtExecutionProvider"),))
    assert device.fingerprint("device", target, {"tensorrt-cu13": "10.13.2"})["tensorrt"] == "10.13.2"
    (tmp_path / "libnvinfer.so.10.13.3").touch()
    (tmp_path / "libnvinfer.so.10").symlink_to("libnvinfer.so.10.13.3")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert device.fingerprint("device", target, {})["tensorrt"] == "libnvinfer.so.10.13.3"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    monkeypatch.setattr(device, "list_loader_libraries", lambda _: [])
    with pytest.raises(DeviceUnknown, match="the version of TensorRT cannot be read"):
        device.fingerprint("device", target, {})


def test_what_always_runs_beside_stages_is_in_measurements_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_BESIDE", "ray 2.60.0")
    forget()
    assert device.fingerprint("measurement", None)["beside"] == "ray 2.60.0"
    assert "beside" not in device.fingerprint("device", None)
    monkeypatch.delenv("ORUN_BESIDE")
    forget()
    assert "beside" not in device.fingerprint("measurement", None)
