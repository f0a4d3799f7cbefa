"""Graphs of trivial stages, run by orun and by other build systems and runners, on one machine.

    python -m benchmarks.runner                     fans and chains of 10, 100 and 1000 stages
    python -m benchmarks.runner --sizes 10 --rounds 1
    python -m benchmarks.runner --only orun ninja

Tools that are not on the PATH are left out, and named. A stage of orun does more than those of the others: its process
is traced, its artifact is checked and stored by content, and the result is recorded.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from benchmarks.graphs import Shape
from benchmarks.rival_runners import RUNNERS, Runner
from benchmarks.spent import Spent, in_turn, machine, spend, table

SIZES = (10, 100, 1000)


def compare(runners: Mapping[str, Runner], shape: Shape, size: int, rounds: int) -> list[list[str]]:
    """Return a row for each runner: the cost of the first run, and of a run with nothing to do."""
    cold: dict[str, Spent] = {}
    tasks: dict[str, Callable[[], Spent]] = {}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="runner-") as top:
        for name, runner in runners.items():
            if size > runner.most:
                problems[name] = "not tried"
                continue
            folder = Path(top, name)
            folder.mkdir()
            runner.write(folder, shape, size)
            try:
                for command in runner.prepare:
                    spend(command, folder)
                cold[name] = spend(runner.command, folder)
                spend(runner.command, folder)
            except subprocess.CalledProcessError:
                problems[name] = "fails"
                continue
            tasks[name] = partial(spend, runner.command, folder)
        noop = in_turn(tasks, rounds)
    return [
        [shape, str(size), name, *(_figures(cold[name], noop[name]) if name in noop else [problems[name], "", "", ""])]
        for name in runners
    ]


def _figures(cold: Spent, noop: Spent) -> list[str]:
    return [f"{cold.cpu:.2f}", f"{cold.wall:.2f}", f"{noop.cpu:.3f}", f"{noop.wall:.3f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of stages")
    parser.add_argument("--rounds", type=int, default=5, help="runs with nothing to do; figures are medians")
    parser.add_argument("--only", nargs="+", choices=RUNNERS, default=list(RUNNERS), help="the tools to compare")
    options = parser.parse_args(arguments)
    there = {name: RUNNERS[name] for name in options.only if shutil.which(RUNNERS[name].program)}
    if absent := [name for name in options.only if name not in there]:
        print(f"not installed, left out: {', '.join(absent)}", file=sys.stderr)
    rows = [
        row
        for shape in get_args(Shape)
        for size in options.sizes
        for row in compare(there, shape, size, options.rounds)
    ]
    head = ["graph", "stages", "tool", "cold, CPU s", "wall s", "no-op, CPU s", "wall s"]
    print(machine(), table(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
