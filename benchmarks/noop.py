"""Cost of a run with nothing to do, and of a trivial stage, against `python -c "import click, yaml"`.

python -m benchmarks.noop                       builds pipelines/bert.yaml first, in a temporary store
python -m benchmarks.noop --store artifacts     uses the results in this store
python -m benchmarks.noop --quick               without bert.yaml, graphs of 10 stages
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from benchmarks.graphs import Shape, write_pipeline
from benchmarks.spent import ORUN, Spent, in_turn, machine, spend, table, verdict

BARE = (sys.executable, "-c", "import click, yaml")
HELP_BAR, BERT_BAR = 1.2, 1.6  # times the bare command
SIZES = {10: 0.06, 100: 0.07, 1000: 0.12}  # stages, and CPU seconds above the bare command
STAGE_BAR = 0.02  # CPU seconds of a trivial stage


def small(store: Path | None, rounds: int) -> str:
    """Measure `orun --help`, and an up-to-date bert.yaml if there is a store, as multiples of the bare command."""
    tasks = {"bare": partial(spend, BARE), "orun --help": partial(spend, (*ORUN, "--help"))}
    bars = {"orun --help": HELP_BAR, "orun pipelines/bert.yaml": BERT_BAR}
    if store:
        command = (*ORUN, "pipelines/bert.yaml", "--store", str(store))
        spend(command)
        tasks["orun pipelines/bert.yaml"] = partial(spend, command)
    spent = in_turn(tasks, rounds)
    rows = [
        [name, f"{cost.cpu:.3f}", f"{cost.wall:.3f}", *_times(cost, spent["bare"], bars.get(name))]
        for name, cost in spent.items()
    ]
    return table(["command", "CPU s", "wall s", "times bare, CPU", "wall", "bar"], rows)


def _times(cost: Spent, bare: Spent, bar: float | None) -> list[str]:
    cpu, wall = cost.cpu / bare.cpu, cost.wall / bare.wall
    return [f"{cpu:.2f}", f"{wall:.2f}", verdict(cpu, bar) if bar else ""]


def graphs(folder: Path, sizes: Sequence[int], rounds: int) -> str:
    """Measure cold and no-op runs of fans and chains."""
    rows = [row for shape in get_args(Shape) for row in _graph_rows(folder, shape, sizes, rounds)]
    head = ["graph", "stages", "cold, CPU s", "a stage, CPU ms", "", "no-op, CPU s", "above bare", ""]
    return table(head, rows)


def _graph_rows(folder: Path, shape: Shape, sizes: Sequence[int], rounds: int) -> list[list[str]]:
    rows, smallest = [], Spent(0, 0)
    for size in sizes:
        command = (*ORUN, str(write_pipeline(folder, shape, size)), "--store", str(folder / f"{shape}{size}"), "-q")
        cold = spend(command)
        spend(command)  # it writes the no-op record
        spent = in_turn({"bare": partial(spend, BARE), f"{shape} of {size}": partial(spend, command)}, rounds)
        noop = spent[f"{shape} of {size}"].cpu
        above = noop - spent["bare"].cpu
        if size == sizes[0]:
            smallest, each = cold, ["", ""]
        else:
            stage = (cold.cpu - smallest.cpu) / (size - sizes[0])  # without the fixed cost of a run
            each = [f"{stage * 1000:.1f}", verdict(stage * 1000, STAGE_BAR * 1000)]
        figures = [f"{cold.cpu:.2f}", *each, f"{noop:.3f}", f"{above:.3f}", verdict(above, SIZES[size])]
        rows.append([shape, str(size), *figures])
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, help="a store in which pipelines/bert.yaml is built")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command; figures are medians")
    parser.add_argument("--quick", action="store_true", help="two rounds, without bert.yaml, graphs of 10 stages")
    options = parser.parse_args(arguments)
    rounds, sizes = (2, [10]) if options.quick else (options.rounds, list(SIZES))
    with tempfile.TemporaryDirectory(prefix="noop-") as folder:
        store = None if options.quick else (options.store or Path(folder, "bert")).absolute()
        tables = [small(store, rounds), graphs(Path(folder), sizes, rounds)]
    print(machine(), *tables, sep="\n\n")


if __name__ == "__main__":
    main()
