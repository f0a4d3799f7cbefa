"""Memory of a session that the system does not count as resident: ONNX Runtime's arena and GPU memory."""

from __future__ import annotations

import re

from orun.core.targets import GPU_PROVIDERS, Target
from orun.environment.device import ask_gpu

MEBIBYTE = 1 << 20
INFORMATION = 1  # the severity at which ONNX Runtime logs what its arenas do
GROWTH = re.compile(
    r"Reserving memory in BFCArena for (?P<reserving>\w+) size: (?P<reserved>\d+)"
    r"|Extending BFCArena for (?P<extending>\w+)"
    r"|Extended allocation by (?P<extended>\d+) bytes"
)


def arena(log: str, device: str = "Cpu") -> int:
    """Bytes that ONNX Runtime's arena of a device took from the system in all.

    Args:
        log: what ONNX Runtime wrote at severity `INFORMATION`, from before the session was made.
        device: by ONNX Runtime's name for its memory.
    """
    total, extending = 0, ""
    for found in GROWTH.finditer(log):
        if found["reserving"] == device:
            total += int(found["reserved"])
        extending = found["extending"] or extending
        if found["extended"] and extending == device:
            total += int(found["extended"])
    return total


def gpu_memory(target: Target) -> int | None:
    """Bytes in use on the GPU of a target's first provider for one, by any process; None when it names none.

    Raises:
        DeviceUnknown: when `nvidia-smi` cannot tell.
    """
    for provider in target.providers:
        if provider.name in GPU_PROVIDERS:
            (used,) = ask_gpu(provider.options.get("device_id", "0"), ("memory.used",))
            return int(used) * MEBIBYTE
    return None
