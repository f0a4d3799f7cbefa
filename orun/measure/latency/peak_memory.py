"""Memory that a session takes and the system does not count as resident: ONNX Runtime's arena, GPU memory."""

from __future__ import annotations

import re

from orun.core.targets import GPU_PROVIDERS, Target
from orun.environment.device import ask_gpu

MEBIBYTE = 1 << 20
INFORMATION = 1  # severity at which ONNX Runtime logs how its arenas grow
GROWTH = re.compile(
    r"Reserving memory in BFCArena for (?P<reserving>\w+) size: (?P<reserved>\d+)"
    r"|Extending BFCArena for (?P<extending>\w+)"
    r"|Extended allocation by (?P<extended>\d+) bytes"
)


def parse_arena_bytes(log: str) -> int:
    """Return the bytes that ONNX Runtime's arena of the CPU took from the system in all.

    Args:
        log: ONNX Runtime's log at severity `INFORMATION`, from before the session was made.
    """
    total, extending = 0, ""
    for match in GROWTH.finditer(log):
        if match["reserving"] == "Cpu":
            total += int(match["reserved"])
        extending = match["extending"] or extending
        if match["extended"] and extending == "Cpu":
            total += int(match["extended"])
    return total


def read_gpu_memory(target: Target) -> int | None:
    """Return the bytes in use, by any process, on the GPU of the target's first GPU provider; None without one.

    Raises:
        DeviceUnknown: if `nvidia-smi` cannot tell.
    """
    for provider in target.providers:
        if provider.name in GPU_PROVIDERS:
            (used,) = ask_gpu(provider.options.get("device_id", "0"), ("memory.used",))
            return int(used) * MEBIBYTE
    return None
