"""Spread of launches that time a model against itself, with and without each counter-measure of the latency engine.

The counter-measures are: memory on huge pages, models that rest while another is timed, inferences after a rest that do
not count, and CPU time of the calling thread. The remaining spread decides how many launches a gate needs.

    python -m benchmarks.launch_spread --model model.onnx --threads 1 --sequence 64
    python -m benchmarks.launch_spread --model model.onnx --threads 2 --sequence 64 --noise 1

Each round draws a new order of the variants, so that all of them meet the same disturbances.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.planting import noise
from orun.core.targets import Target
from orun.measure import workers
from orun.measure.benchmark_case import BASELINE, MODEL, BenchmarkCase
from orun.measure.latency.launch import Launch, Pace, run_launch
from orun.measure.latency.timing_method import Method
from orun.measure.workers import RESUMED_SECONDS, Worker
from orun.stages.timing import Sizes, make_feeds


@dataclass(frozen=True)
class Way:
    """A variant of the engine: methods of `Worker` left out, time to compare, seconds not counted after a rest."""

    left_out: tuple[str, ...] = ()
    method: Method | None = None
    resumed: float = RESUMED_SECONDS


WAYS: Mapping[str, Way] = {
    "all measures": Way(),
    "pages as they come": Way(("collapse",)),
    "the other model does not rest": Way(("rest",)),
    "the first inference after a rest counts": Way(resumed=0.0),
    "wall time": Way((), "wall"),
    "none of them": Way(("collapse", "rest"), "wall"),
}
ALONE = ("all measures", "pages as they come", "wall time", "none of them")  # variants for one thread: nothing rests


@dataclass(frozen=True)
class TimedLaunch:
    """A launch and the seconds that it took."""

    launch: Launch
    seconds: float


def main() -> None:
    """Make the launches in turn, and print the table."""
    options = _options()
    order = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, noise(options.noise, options.seed):
        os.chdir(folder)
        subjects = _subjects(options)
        ways = [way for way in WAYS if options.threads > 1 or way in ALONE]
        launches: dict[str, list[TimedLaunch]] = {way: [] for way in ways}
        for number in range(options.launches):
            print(f"round {number + 1} of {options.launches}", flush=True)
            for way in order.sample(ways, len(ways)):
                launches[way].append(_launch(subjects, options.blocks, order, WAYS[way]))
    print("\n".join(table(launches)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, help="size of the axis of that name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=float, default=4.0, help="seconds for the ABBA blocks of a launch")
    parser.add_argument("--noise", type=int, default=1, help="noise processes")
    parser.add_argument("--launches", type=int, default=20, help="launches of each variant")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.model = options.model.resolve()
    return options


def _subjects(options: argparse.Namespace) -> dict[str, BenchmarkCase]:
    models = dict.fromkeys((MODEL, BASELINE), options.model)
    fed = make_feeds(models, Sizes(options.batch, {"sequence": options.sequence} if options.sequence else {}), 0, None)
    target = Target("cpu", session={"intra_op_num_threads": options.threads})
    return {name: BenchmarkCase(path, target, fed[name]) for name, path in models.items()}


def _launch(subjects: Mapping[str, BenchmarkCase], blocks: float, order: random.Random, way: Way) -> TimedLaunch:
    pace = Pace(warmup=0.1, samples=1, alone=0.0, quads=blocks)
    began = time.monotonic()
    with _without(way.left_out), patch.object(workers, "RESUMED_SECONDS", way.resumed):
        launch = run_launch(subjects, pace, order, way.method)
    return TimedLaunch(launch, time.monotonic() - began)


@contextmanager
def _without(left_out: Sequence[str]) -> Iterator[None]:
    """Let these methods of a worker do nothing within the block."""
    with ExitStack() as stack:
        for name in left_out:
            stack.enter_context(patch.object(Worker, name, lambda *_: None))
        yield


def table(launches: Mapping[str, Sequence[TimedLaunch]]) -> list[str]:
    """Return a row for each variant: spread of the launches, latency, share of waiting, seconds of a launch."""
    rows = ["| | launches | spread | an inference, ms | waiting for a core | s a launch |", "|---|---|---|---|---|---|"]
    for way, timed in launches.items():
        values = [item.launch.log_ratios[BASELINE] for item in timed]
        error = statistics.stdev(values) / math.sqrt(2 * len(values))  # standard error of the spread, for normal values
        waits = [item.launch.waiting or 0.0 for item in timed]
        rows.append(
            f"| {way} | {len(values)} | {statistics.stdev(values):.2%} (± {error:.2%})"
            f" | {statistics.median(item.launch.inference_seconds[MODEL] for item in timed) * 1e3:.3g}"
            f" | {statistics.median(waits):.0%} | {statistics.median(item.seconds for item in timed):.1f} |"
        )
    return rows


if __name__ == "__main__":
    main()
