"""Makespan of a wide pipeline against its lower bound, and against `xargs -P` with the same work.

    python -m benchmarks.makespan                     24 stages of 0.2 to 2 CPU seconds on 2 cores
    python -m benchmarks.makespan --stages 8 --unit 0.1 --rounds 1

The lower bound is the sum of the stages' times divided by the cores, or the longest stage if that takes longer. It uses
the times of the same run, so that other load affects both sides. orun runs once without knowing how long stages take,
and once with the times of that run. `xargs` gets the longest stages first, sorted by hand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orun
from benchmarks.spent import machine, table, verdict
from orun.core.events import Event, StageFinished, StageStarted

BAR = 1.15  # times the lower bound
CODE = """\
import time
from orun.stages.contract import Context, stage


@stage(inputs={}, output="files")
def burn(context: Context, *, seconds: float, number: int) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    (context.output / "done.txt").write_text(str(number))
"""
BY_HAND = """\
import sys, time
began = time.perf_counter()
while time.process_time() < float(sys.argv[1]):
    pass
sys.stdout.write(f"{time.perf_counter() - began}\\n")  # at once: others write there, too
"""


@dataclass(frozen=True)
class Makespan:
    """Wall seconds from the first start to the last end, and of each stage."""

    seconds: float
    stages: tuple[float, ...]

    def least(self, cores: int) -> float:
        """Return the lower bound of every schedule, in seconds."""
        return max(sum(self.stages) / cores, *self.stages)


def lengths(count: int, unit: float) -> list[float]:
    """Return CPU seconds of the stages: one to ten units, in a fixed random order."""
    seconds = [unit * (1 + number % 10) for number in range(count)]
    Random(0).shuffle(seconds)
    return seconds


def by_orun(file: Path, store: Path, cores: int, force: Iterable[str]) -> Makespan:
    """Run every stage of a pipeline."""
    started: list[float] = []
    ended: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, StageStarted | StageFinished):
            (started if isinstance(event, StageStarted) else ended).append(time.perf_counter())

    result = orun.run(file, store=store, jobs=cores, force=tuple(force), on_event=note)
    seconds = [stage.seconds for stage in result.stages if stage.outcome == "built" and stage.seconds is not None]
    if len(seconds) != len(result.stages):
        raise RuntimeError(f"{len(result.stages) - len(seconds)} stages did not run")
    return Makespan(max(ended) - min(started), tuple(seconds))


def by_xargs(seconds_of_stages: Sequence[float], cores: int) -> Makespan:
    """Run the same loops by `xargs`, the longest first."""
    text = "\n".join(str(seconds) for seconds in sorted(seconds_of_stages, reverse=True))
    command = ["xargs", "-P", str(cores), "-n", "1", sys.executable, "-S", "-c", BY_HAND]
    began = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return Makespan(time.perf_counter() - began, tuple(map(float, done.stdout.split())))


def write(folder: Path, seconds_of_stages: Sequence[float]) -> Path:
    """Write the pipeline and return its file."""
    (folder / "loops.py").write_text(CODE, "utf-8")
    stages = [
        f"  s{number}: {{uses: ./loops.py:burn, with: {{seconds: {seconds:g}, number: {number}}}}}"
        for number, seconds in enumerate(seconds_of_stages)
    ]
    path = folder / "wide.yaml"
    path.write_text("\n".join(["name: wide", "stages:", *stages]) + "\n", "utf-8")
    return path


def rows(folder: Path, seconds_of_stages: Sequence[float], cores: int) -> list[list[str]]:
    """Return the rows of one round."""
    file, store = write(folder, seconds_of_stages), folder / "store"
    names = [f"s{number}" for number in range(len(seconds_of_stages))]
    makespans = {
        "orun, times unknown": by_orun(file, store, cores, ()),
        "orun, times known": by_orun(file, store, cores, names),
        "xargs, longest first": by_xargs(seconds_of_stages, cores),
    }
    return [
        [name, f"{makespan.seconds:.2f}", f"{makespan.least(cores):.2f}", f"{ratio:.3f}", verdict(ratio, BAR)]
        for name, makespan in makespans.items()
        for ratio in [makespan.seconds / makespan.least(cores)]
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stages", type=int, default=24, help="how many")
    parser.add_argument("--unit", type=float, default=0.2, help="CPU seconds of the shortest; the longest takes ten")
    parser.add_argument("--cores", type=int, default=2, help="stages at a time")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of the whole")
    options = parser.parse_args(arguments)
    results: list[list[str]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="makespan-") as folder:
            results += rows(Path(folder), lengths(options.stages, options.unit), options.cores)
    head = ["by", "makespan, s", "least, s", "times the least", "bar"]
    print(machine(), table(head, sorted(results)), sep="\n\n")


if __name__ == "__main__":
    main()
