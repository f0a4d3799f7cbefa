"""How far launches of one model against itself are apart, and what each measure against that is worth.

The launches of the latency engine, with one of its measures left out in turn: memory on huge pages, models that rest
while another is timed, inferences that do not count after that, the CPU time of the calling thread. What is left is
what a gate has to wait for.

    python -m benchmarks.launch_spread --model model.onnx --threads 1 --sequence 64
    python -m benchmarks.launch_spread --model model.onnx --threads 2 --sequence 64 --noise 1

The order of the ways is drawn anew for each round, so that all meet the same minutes.
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
    """What of `Worker` is left out, by what time models are compared, and what does not count after a rest."""

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
ALONE = ("all measures", "pages as they come", "wall time", "none of them")  # on one thread nothing rests


@dataclass(frozen=True)
class Found:
    """One launch, and the seconds that it took."""

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
        found: dict[str, list[Found]] = {way: [] for way in ways}
        for number in range(options.launches):
            print(f"round {number + 1} of {options.launches}", flush=True)
            for way in order.sample(ways, len(ways)):
                found[way].append(_launched(subjects, options.quads, order, WAYS[way]))
    print("\n".join(table(found)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, help="size of the axis of that name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quads", type=float, default=4.0, help="seconds for the quads of a launch")
    parser.add_argument("--noise", type=int, default=1, help="noise processes")
    parser.add_argument("--launches", type=int, default=20, help="of each way")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.model = options.model.resolve()
    return options


def _subjects(options: argparse.Namespace) -> dict[str, BenchmarkCase]:
    models = dict.fromkeys((MODEL, BASELINE), options.model)
    fed = make_feeds(models, Sizes(options.batch, {"sequence": options.sequence} if options.sequence else {}), 0, None)
    target = Target("cpu", session={"intra_op_num_threads": options.threads})
    return {name: BenchmarkCase(path, target, fed[name]) for name, path in models.items()}


def _launched(subjects: Mapping[str, BenchmarkCase], quads: float, order: random.Random, way: Way) -> Found:
    pace = Pace(warmup=0.1, samples=1, alone=0.0, quads=quads)
    began = time.monotonic()
    with _without(way.left_out), patch.object(workers, "RESUMED_SECONDS", way.resumed):
        launch = run_launch(subjects, pace, order, way.method)
    return Found(launch, time.monotonic() - began)


@contextmanager
def _without(left_out: Sequence[str]) -> Iterator[None]:
    """A worker does nothing when it is asked for these."""
    with ExitStack() as stack:
        for name in left_out:
            stack.enter_context(patch.object(Worker, name, lambda *_: None))
        yield


def table(found: Mapping[str, Sequence[Found]]) -> list[str]:
    """A row for each way: spread of the launches' values, latency, share of waiting, and seconds of a launch."""
    rows = ["| | launches | spread | an inference, ms | waiting for a core | s a launch |", "|---|---|---|---|---|---|"]
    for way, every in found.items():
        values = [one.launch.log_ratios[BASELINE] for one in every]
        spread = statistics.stdev(values) / math.sqrt(2 * len(values))  # of the spread itself, of normal values
        waits = [one.launch.waiting or 0.0 for one in every]
        rows.append(
            f"| {way} | {len(values)} | {statistics.stdev(values):.2%} (± {spread:.2%})"
            f" | {statistics.median(one.launch.inference_seconds[MODEL] for one in every) * 1e3:.3g}"
            f" | {statistics.median(waits):.0%} | {statistics.median(one.seconds for one in every):.1f} |"
        )
    return rows


if __name__ == "__main__":
    main()
