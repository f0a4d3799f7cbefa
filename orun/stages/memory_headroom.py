"""Check before a stage starts that free memory suffices for what a kind makes of a large model."""

from __future__ import annotations

from pathlib import Path

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.text.units import show

LARGE = 2**29  # bytes of weights; what a stage of a smaller model needs is hardly ever missing
MEMINFO = Path("/proc/meminfo")


def require_room(context: Context, times: float, weights: int | None = None) -> None:
    """Refuse a large model for which there is too little memory: a stage that is killed for it says nothing.

    Args:
        context: of the stage.
        times: how many times the weights a kind holds at once, at most: `python -m benchmarks.big` measures it.
        weights: their bytes; those of the files of the stage's models when None.

    Raises:
        StageFailed: when the free memory is less than that.
    """
    held = _on_disk(context) if weights is None else weights
    needed, there = int(times * held), free_memory()
    if held < LARGE or needed <= there:
        return
    raise StageFailed(
        context.stage,
        f"the model takes {show(needed, 'B')} of memory here, and {show(there, 'B')} are free",
        why=f"its weights are {show(held, 'B')}, and up to {times:g} times as much is held at once",
        hint="free some, raise the limit of the container, or run this stage on a larger machine",
    )


def free_memory() -> int:
    """Bytes that are free on this machine, or that the control group of this process may have if those are fewer."""
    from orun.environment.physical_memory import memory_here

    here = memory_here()
    if MEMINFO.exists():
        sizes = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        here = min(here, int(sizes["MemAvailable"].split()[0]) * 1024)
    return here


def _on_disk(context: Context) -> int:
    """Bytes of the files of the models that the stage is given; each counts once for every port that it is given at."""
    return sum(
        path.stat().st_size for folder in context.inputs.values() for path in folder.rglob("*") if path.is_file()
    )
