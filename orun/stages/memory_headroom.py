"""Check that free memory suffices for a large model, before a stage starts."""

from __future__ import annotations

from pathlib import Path

from orun.stages._graph.io import measure_files
from orun.stages.contract import Context
from orun.text.units import show

LARGE = 2**29  # bytes of weights; smaller models hardly ever run out of memory
MEMINFO = Path("/proc/meminfo")


def require_memory(context: Context, copies: float, weights: int | None = None) -> None:
    """Refuse a large model for which memory is too small: a stage that the kernel kills gives no message.

    Args:
        context: of the stage.
        copies: peak memory as a multiple of the weights; `python -m benchmarks.big` measures it.
        weights: bytes of the weights; the size of the stage's input models when None.

    Raises:
        StageFailed: when less memory is free.
    """
    size = sum(map(measure_files, context.inputs.values())) if weights is None else weights
    needed, free = int(copies * size), measure_free_memory()
    if size < LARGE or needed <= free:
        return
    raise context.failed(
        f"the model takes {show(needed, 'B')} of memory here, and {show(free, 'B')} are free",
        why=f"its weights are {show(size, 'B')}, and the stage needs up to {copies:g} times as much at once",
        hint="free some memory, raise the limit of the container, or run this stage on a larger machine",
    )


def measure_free_memory() -> int:
    """Return the free bytes of this machine, or of the control group of this process if those are fewer."""
    from orun.environment.physical_memory import measure_memory

    here = measure_memory()
    if MEMINFO.exists():
        sizes = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        here = min(here, int(sizes["MemAvailable"].split()[0]) * 1024)
    return here
