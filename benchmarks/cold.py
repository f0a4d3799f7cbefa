"""First run of `pipelines/bert.yaml` against `benchmarks/by_hand.py`, which does the same in one process.

    python -m benchmarks.cold              five rounds of each in turn
    python -m benchmarks.cold --rounds 1

Both measure latency with three launches, because otherwise the number of launches depends on how quiet the machine is.
A latency measurement has a fixed duration, so a second pair of rows leaves it, and the release, out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.spent import ORUN, Spent, in_turn, machine, spend, table, verdict

BAR = 1.15
BY_HAND = (sys.executable, "-m", "benchmarks.by_hand")
LAUNCHES = 3
PAIRS = {"whole": ("orun, whole", "by hand, whole"), "no latency": ("orun, to accuracy", "by hand, to accuracy")}


def _orun(*options: str) -> Spent:
    with tempfile.TemporaryDirectory(prefix="cold-") as store:
        return spend([*ORUN, "pipelines/bert.yaml", "--store", store, *options])


def _by_hand(launches: int) -> Spent:
    with tempfile.TemporaryDirectory(prefix="cold-") as folder:
        return spend([*BY_HAND, str(Path(folder, "release")), "--launches", str(launches)])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each command; figures are medians")
    rounds = parser.parse_args(arguments).rounds
    tasks = {
        "orun, whole": lambda: _orun("--set", f"stages.latency.with.max_launches={LAUNCHES}"),
        "by hand, whole": lambda: _by_hand(LAUNCHES),
        "orun, to accuracy": lambda: _orun("--to", "accuracy"),
        "by hand, to accuracy": lambda: _by_hand(0),
    }
    spent = in_turn(tasks, rounds)
    rows = [[name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}"] for name, cost in spent.items()]
    print(machine(), table(["cold run", "CPU s", "wall s"], rows), sep="\n\n", end="\n\n")
    for name, (ours, theirs) in PAIRS.items():
        cpu, wall = spent[ours].cpu / spent[theirs].cpu, spent[ours].wall / spent[theirs].wall
        print(f"{name}: {cpu:.2f}x the CPU time ({verdict(cpu, BAR)}), {wall:.2f}x the wall time")


if __name__ == "__main__":
    main()
