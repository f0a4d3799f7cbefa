"""Fingerprint of this machine: the facts that bind a result of each stage class."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orun.core.targets import StageClass, Target
from orun.environment.call_cache import cache_calls
from orun.environment.distributions import find, list_exact, list_installed
from orun.environment.env_vars import NEIGHBOURS, SETTINGS
from orun.environment.processor import read_cpu
from orun.environment.secret_variables import Secrets
from orun.errors import DeviceUnknown
from orun.providers.registry import PROVIDERS
from orun.providers.spec import ProviderSpec

TENSORRT_PACKAGES = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12")
HARMLESS = ("ORT_DISABLE_TELEMETRY=", "ONEDNN_VERBOSE=", "DNNL_VERBOSE=")


def fingerprint(
    stage_class: StageClass, target: Target | None, packages: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the facts about this machine that bind a result of a stage class.

    Args:
        stage_class: `portable` results hold for a Python minor, a system and an architecture; `device` ones also for
            the processor and the accelerator of the target; `measurement` ones also for this host and its clocks.
        target: the target that the stage runs for, if it names one.
        packages: versions of the packages that the stage runs with, by normalized name; orun's own when None.

    Raises:
        DeviceUnknown: if a GPU or library that the target needs cannot be read. A guess could reuse an engine on a
            machine that it was not built for.
    """
    parts = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "system": sys.platform,
        "architecture": platform.machine(),
    }
    if stage_class == "portable":
        return parts
    parts |= read_cpu() | read_library_versions(target, packages) | read_settings()
    for provider in target.providers if target else ():
        if provider.on_nvidia_gpu:
            parts |= read_gpu(provider.options.get("device_id", "0"))
        if provider.name == "TensorrtExecutionProvider":
            parts["tensorrt"] = find_tensorrt(list_installed() if packages is None else packages)
    if stage_class == "measurement":
        parts |= read_clocks()
    return parts


def fingerprint_origin(
    stage_class: StageClass, target: Target | None, packages: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the origin of a result: the fingerprint, and the host for every class.

    Arguments and errors are those of `fingerprint`.
    """
    return fingerprint(stage_class, target, packages) | read_clocks()


@cache_calls
def read_clocks() -> dict[str, str]:
    """Return the host, its clocks and what always runs beside stages, on which only measurements depend.

    Ephemeral CI runners have a new name each time; `ORUN_HOST` gives identical runners one name.
    """
    folder = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    parts = {"host": os.environ.get("ORUN_HOST") or platform.node()}
    for name, file in (("governor", "scaling_governor"), ("maximum clock", "cpuinfo_max_freq")):
        try:
            parts[name] = (folder / file).read_text(encoding="utf-8").strip()
        except OSError:  # unknown in virtual machines
            parts[name] = "unknown"
    if neighbours := os.environ.get(NEIGHBOURS):
        parts["beside"] = neighbours
    return parts


def read_library_versions(target: Target | None, packages: Mapping[str, str] | None) -> dict[str, str]:
    """Return the versions of ONNX Runtime and of the packages behind the target's providers."""
    packages = list_exact() if packages is None else packages
    runtime = find("onnxruntime", packages)
    parts = {"runtime": " ".join(runtime) if runtime else "none"}
    for provider in target.providers if target else ():
        spec = provider.spec or PROVIDERS.get(provider.name, ProviderSpec())
        for name in spec.libraries:
            parts[name] = packages.get(name, "none")
    return parts


def read_settings() -> dict[str, str]:
    """Return the set environment variables by which runtimes choose kernels."""
    named = ((name, value) for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS))
    assignments = (f"{name}={value}" for name, value in named if name not in Secrets())
    text = " ".join(assignment for assignment in assignments if not assignment.startswith(HARMLESS))
    return {"settings": text} if text else {}


@cache_calls
def read_gpu(index: str = "0") -> dict[str, str]:
    """Return name, compute capability, memory, partitioning (MIG) and driver of a GPU, from `nvidia-smi`.

    Index and serial number are left out: an engine is valid on every GPU of the same model.

    Args:
        index: the number that programs call it by, which `CUDA_VISIBLE_DEVICES` may shift.

    Raises:
        DeviceUnknown: when it cannot be read.
    """
    query = ("name", "compute_cap", "memory.total", "mig.mode.current", "driver_version")
    return {f"gpu {name}": value for name, value in zip(query, ask_gpu(index, query), strict=True)}


def find_nvidia_smi_index(index: str) -> str:
    """Return what `nvidia-smi` calls the GPU that programs call by this number: `CUDA_VISIBLE_DEVICES` may shift it."""
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return visible[int(index)] if index.isdigit() and int(index) < len(visible) else index


def ask_gpu(index: str, query: Sequence[str]) -> list[str]:
    """Return properties of a GPU from `nvidia-smi`, as text without units.

    `query` names them as `nvidia-smi` does.

    Raises:
        DeviceUnknown: when it cannot be read.
    """
    import subprocess

    number = find_nvidia_smi_index(index)
    command = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv,noheader,nounits", f"--id={number}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        values = [value.strip() for value in done.stdout.splitlines()[0].split(",")]
        return [value for _, value in zip(query, values, strict=True)]
    except (OSError, subprocess.SubprocessError, IndexError, ValueError) as error:
        raise DeviceUnknown(
            "the GPU of this machine cannot be read, so nothing built for it can be told from another's",
            why=f"nvidia-smi: {error}",
            hint="run nvidia-smi, or name a target without CUDA and TensorRT",
        ) from error


def find_tensorrt(packages: Mapping[str, str]) -> str:
    """Return the version of TensorRT, from its package or the library that the system's loader finds.

    Raises:
        DeviceUnknown: when there is neither.
    """
    for name in TENSORRT_PACKAGES:
        if name in packages:
            return packages[name]
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    libraries = sorted(path for folder in folders if folder for path in Path(folder).glob("libnvinfer.so*"))
    for path in (*libraries, *list_loader_libraries("libnvinfer.so")):
        return path.resolve().name  # such as libnvinfer.so.10.13.2
    raise DeviceUnknown(
        "the version of TensorRT cannot be read, so no engine of it can be told from another's",
        why="there is no tensorrt package beside ONNX Runtime, and no libnvinfer.so that the system's loader finds",
        hint="install TensorRT, or name a target without it",
    )


def list_loader_libraries(library: str) -> list[Path]:
    """Return the paths of the libraries with this prefix that the system's loader finds."""
    import subprocess

    try:
        done = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:  # a system without glibc
        return []
    lines = (line.partition(" => ") for line in done.stdout.splitlines())
    return [Path(path) for name, _, path in lines if name.strip().startswith(library)]
