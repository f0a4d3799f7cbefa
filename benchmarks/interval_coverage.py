"""Coverage of latency intervals over fresh runs: small and large models, one or two threads, with and without noise.

A gate is only trusted if it says the same today and tomorrow. A case is a pair of models (a float model against itself,
or its dynamic int8 form against it), a size, a number of threads and a level of noise. A run is a new Python process
with one complete measurement of `measure/latency`. For each case, the table shows how the runs were judged, and how
many of their 95 % intervals contain the pooled value: the median over all runs, weighted by the inverse square of the
interval's width as in a meta-analysis, so that runs that know little do not move it.

    python -m benchmarks.interval_coverage                         every case: hours, unless --minutes limits it
    python -m benchmarks.interval_coverage --only 20us-1 --runs 5  cases whose names begin with 20us-1
    python -m benchmarks.interval_coverage --noise 0               on an otherwise idle machine
    python -m benchmarks.interval_coverage --runs 0                only the table of the results so far

Every run is a line of `--out`. A benchmark that is started again continues where it stopped. The table shows the load
of the machine, because other processes are noise as well.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gate_power import judge_metrics, regression_gate, write_stack
from benchmarks.gate_table import read_lines, share
from benchmarks.planting import noise
from benchmarks.spent import machine
from benchmarks.spent import table as markdown
from orun.core.metrics import Estimate, Metric
from orun.core.serialization import decode, encode
from orun.core.source_location import Position
from orun.core.targets import Target
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency.measurement import measure
from orun.measure.latency.metrics import build_metrics
from orun.measure.workers import WorkerProcess
from orun.pipeline.model import Gate, Threshold
from orun.stages.measure.latency import Params, build_budget
from orun.stages.timing import Sizes, make_feeds

SIZES = {"20us": (16, 128, 4), "300us": (64, 256, 4), "5ms": (256, 512, 4), "100ms": (512, 1024, 9)}
THREADS = (1, 2)
PAIRS = ("float", "int8")
LIMIT_DISTANCE = 0.1  # distance of a speed-up limit from the pooled value, as a proportion
REGRESSION = 0.05
RUN_SECONDS = 900.0  # seconds after which a run is ended
POSITION = Position("interval_coverage.py", 1, 1)
HEAD = (
    *("model", "threads", "pair", "noise", "load", "gate", "runs", "passed", "failed", "undecided"),
    *("hold the pooled value", "pooled", "s median / 95 %"),
)

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A pair of models, its number of threads and the level of noise."""

    size: str
    threads: int
    pair: str
    noise: int

    @property
    def name(self) -> str:
        """Name for `--only`: `20us-2-int8-noise0`."""
        return f"{self.size}-{self.threads}-{self.pair}-noise{self.noise}"


def main() -> None:
    """Make the runs that are missing in the output file, and print the table."""
    options = _options()
    if options.run:
        print(json.dumps(_run(options.run, options.seed)))
        return
    cases = [Case(*parts) for parts in itertools.product(SIZES, THREADS, PAIRS, options.noise)]
    chosen = [case for case in cases if case.name.startswith(tuple(options.only))]
    done = read_lines(options.out)
    end = time.monotonic() + 60 * options.minutes
    for case, seed in missing_cases(chosen, options.runs, done):
        if time.monotonic() >= end:
            print(f"{options.minutes:g} minutes are over: start it again to continue", file=sys.stderr)
            break
        with noise(case.noise, seed):
            done.append(json.loads(_fresh(case, seed)))
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[-1]) + "\n")
        print(f"{case.name} {seed}: {_summary(done[-1])}", file=sys.stderr, flush=True)
    print(f"{machine()}\n\n{table(done)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="fresh runs of each case")
    parser.add_argument("--only", nargs="+", default=[""], help="prefixes of case names: 20us-1-int8-noise0")
    parser.add_argument("--noise", type=int, nargs="+", default=[0, 1], help="noise processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time after which no further run begins")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "interval_coverage.jsonl")
    parser.add_argument("--run", type=_case, help="make a run of this case, and print its line")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _case(text: str) -> Case:
    size, threads, pair, level = text.split("-")
    return Case(size, int(threads), pair, int(level.removeprefix("noise")))


def missing_cases(cases: Sequence[Case], runs: int, done: Sequence[Line]) -> list[tuple[Case, int]]:
    """Return the missing runs in rounds over all cases, so that each case is measured at all hours of the day."""
    counts = Counter(line["case"] for line in done)
    return [(case, seed) for seed in range(runs) for case in cases if seed >= counts[case.name]]


def _fresh(case: Case, seed: int) -> str:
    command = [sys.executable, "-m", "benchmarks.interval_coverage", "--run", case.name, "--seed", str(seed)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS)
    if process.returncode:
        sys.stderr.write(process.stderr)
        process.check_returncode()
    return process.stdout


def _run(case: Case, seed: int) -> dict[str, Any]:
    """Make one measurement in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        original = write_stack(Path(folder) / "model.onnx", *SIZES[case.size])
        opponent = "baseline" if case.pair == "float" else "reference"
        models = {"model": original if case.pair == "float" else _quantized(original), opponent: original}
        fed = make_feeds(models, Sizes(1, {}), 0, None)
        target = Target("cpu", session={"intra_op_num_threads": case.threads})
        cases = {name: BenchmarkCase(path, target, fed[name]) for name, path in models.items()}
        measurement = measure(cases, build_budget(Params()), seed, lambda *_: None, WorkerProcess)
    return {
        "case": case.name,
        "metrics": encode(build_metrics(measurement, 1)),
        "launches": measurement.list_log_ratios(opponent),
        "waiting": [launch.waiting for launch in measurement.launches],
        "busy": [dict(launch.inference_seconds) for launch in measurement.launches],
        "seconds": measurement.seconds,
        "load": measurement.pressure.load,
    }


def _quantized(original: Path) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    path = original.with_name("int8.onnx")
    quantize_dynamic(original, path)
    return path


def _gates(case: Case, pooled: float) -> dict[str, Gate]:
    """Return a gate on a regression that is not there, or two on speed-ups a tenth below and above the true value."""
    if case.pair == "float":
        return {"p50 max_regression 5%": regression_gate(REGRESSION)}
    limits = [round(float(f"{pooled * factor:.3g}"), 6) for factor in (1 - LIMIT_DISTANCE, 1 + LIMIT_DISTANCE)]
    return {
        f"speedup min {limit:g}": Gate(
            "speedup", "min", Threshold(limit, relative=False, text=f"{limit:g}", unit="x"), "fail", POSITION
        )
        for limit in limits
    }


def _interval(line: Line) -> Estimate:
    """Return the interval of the speed-up, or of the time ratio to the baseline."""
    metrics = decode(dict[str, Metric], line["metrics"])
    comparison = metrics["speedup"].interval if "speedup" in metrics else metrics["p50"].baseline
    ratio = comparison.ratio if comparison is not None and not isinstance(comparison, Estimate) else comparison
    if ratio is None:
        raise ValueError(f"{line['case']} compares nothing")
    return ratio


def _summary(line: Line) -> str:
    ratio = _interval(line)
    interval = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    return f"{interval}, {len(line['launches'])} launches, {line['seconds']:.1f} s"


def table(lines: Sequence[Line]) -> str:
    """Return the table in Markdown: a row for each case and gate."""
    rows = []
    for case in sorted({_case(line["case"]) for line in lines}, key=_place):
        rows += _rows(case, [line for line in lines if line["case"] == case.name])
    return markdown(HEAD, rows)


def _place(case: Case) -> tuple[int, int, int, int]:
    return [*SIZES].index(case.size), case.threads, PAIRS.index(case.pair), case.noise


def _rows(case: Case, lines: Sequence[Line]) -> list[list[str]]:
    intervals = [_interval(line) for line in lines]
    pooled = weighted_median([(each.value, _weight(each)) for each in intervals])
    loads, seconds = [line["load"] for line in lines], [line["seconds"] for line in lines]
    containing = sum(interval.low <= pooled <= interval.high for interval in intervals)
    start = [case.size, str(case.threads), case.pair, str(case.noise), f"{min(loads):.1f} to {max(loads):.1f}"]
    end = [share(containing, len(lines)), f"{pooled:.3f}"]
    end += [f"{statistics.median(seconds):.1f} / {np.quantile(seconds, 0.95):.1f}"]
    rows = []
    for name, gate in _gates(case, pooled).items():
        judged = Counter(judge_metrics(decode(dict[str, Metric], line["metrics"]), gate).outcome for line in lines)
        counts = [str(judged[outcome]) for outcome in ("passed", "failed", "undecided")]
        rows.append([*start, name, str(len(lines)), *counts, *end])
    return rows


def _weight(interval: Estimate) -> float:
    """Return the inverse square of the width; none for an interval without ends, of a run whose launches contradict."""
    return math.log(interval.high / interval.low) ** -2 if math.isfinite(interval.high) else 0.0


def weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the least value that, with all below it, has half of the weights.

    Args:
        pairs: values with their weights.
    """
    half, reached = sum(weight for _, weight in pairs) / 2, 0.0
    for value, weight in sorted(pairs):
        reached += weight
        if reached >= half:
            return value
    raise ValueError("there is no value")


if __name__ == "__main__":
    main()
