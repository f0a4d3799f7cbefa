"""Processor of this machine: model, features, usable cores."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

from orun.environment import cgroups
from orun.environment.call_cache import cache_calls

VNNI = frozenset({"avx512_vnni", "avx_vnni"})
CPUINFO = Path("/proc/cpuinfo")
CORE = 1 << 13  # bytes; more than the entry of a core


@cache_calls
def read_cpu() -> dict[str, str]:
    """Return the model, feature flags (as a digest) and usable cores of the processor."""
    fields = _read_cpuinfo()
    return {
        "cpu": fields.get("model name") or _format_model(fields) or platform.processor() or platform.machine(),
        "cpu flags": blake3(" ".join(_list_flags(fields)).encode()).hexdigest()[:16],
        "cores": str(count_usable_cores()),
    }


def saturates() -> bool:
    """Return whether this processor saturates sums of 8-bit products (AVX2 without VNNI), so that weights need 7 bits.

    See "reduce_range" in https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
    """
    flags = set(_list_flags(_read_cpuinfo()))
    return "avx2" in flags and not flags & VNNI


def _list_flags(fields: Mapping[str, str]) -> list[str]:
    return sorted((fields.get("flags") or fields.get("Features") or "").split())


def _read_cpuinfo() -> dict[str, str]:
    """Return the entry of the first core in `/proc/cpuinfo`: reading hundreds of cores takes long."""
    first = b""
    try:
        with CPUINFO.open("rb", buffering=0) as file:
            while b"\n\n" not in first and (more := file.read(CORE)):
                first += more
    except OSError:  # not Linux
        return {}
    pairs = (line.partition(":") for line in first.decode(errors="replace").partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _format_model(fields: Mapping[str, str]) -> str:
    """Return the model of an Arm processor, which Linux reports as numbers; empty for other processors."""
    numbers = [fields.get(f"CPU {name}", "") for name in ("implementer", "part", "variant", "revision")]
    return f"{platform.machine()} {' '.join(numbers)}" if all(numbers) else ""


def count_usable_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *cgroups.read_core_limits()])
