"""Gates on latency through an agent, against the same gates by hand on the agent's machine.

    python -m benchmarks.agent_gates                 20 runs each, in turn; about 15 minutes
    python -m benchmarks.agent_gates --runs 3 --sockets     without Ray

Two models of matrix products, of which the second has one product in eight more. Each run measures the pair anew and
judges two gates: one that the second model passes, one that it fails. The machine of runs and that of the agent are
network namespaces of this computer, so that both ways measure the same hardware; Ray runs beside both. That needs root
and the program `ip`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.gate_power import write_stack
from benchmarks.machines import Fleet, open_fleet
from benchmarks.spent import machine, table
from orun.core.run_record import RunResult
from orun.eventlog import read_result
from tests.cluster.runs import output_of
from tests.git import commit, git

PRODUCTS = {"reference": 24, "candidate": 27}
PIPELINE = """
name: pair
targets:
  cpu: {{providers: [CPUExecutionProvider], session: {{intra_op_num_threads: 1}}}}
stages:
  reference: {{uses: convert/onnx, with: {{path: reference.onnx}}}}
  candidate: {{uses: convert/onnx, with: {{path: candidate.onnx}}}}
  latency:
    uses: measure/latency
    needs: {{model: candidate, reference: reference}}
    with: {{target: cpu, time: {seconds}s}}
    gate:
      speedup: {{min: 0.8}}
      mean: {{min_speedup: 0.95}}
"""


@dataclass(frozen=True)
class Measured:
    """What one run measured: the speed-up with its interval, and the outcome of each gate."""

    value: float
    low: float
    high: float
    gates: tuple[str, ...]


def write_project(folder: Path, seconds: float) -> Path:
    """Write the pair of models and their pipeline; return its file."""
    folder.mkdir(parents=True)
    for name, products in PRODUCTS.items():
        write_stack(folder / f"{name}.onnx", rows=8, width=256, layers=products)
    file = folder / "pair.yaml"
    file.write_text(PIPELINE.format(seconds=seconds), encoding="utf-8")
    git(folder, "init", "-q")
    commit(folder, "first")
    return file


def measure_by_hand(fleet: Fleet, file: Path) -> Measured:
    """Measure without the agent."""
    store = file.parent.parent / "here"
    return _measured(output_of(fleet.start(str(file), "--store", str(store), "--fresh", "--no-blame", "-q")), store)


def measure_through_agent(fleet: Fleet, file: Path) -> Measured:
    """Measure through the agent."""
    return _measured(output_of(fleet.start_there(file, "--fresh", "--no-blame")), file.parent.parent / "there")


def _measured(output: str, store: Path) -> Measured:
    """Return what the last run in a store has measured."""
    result: RunResult = read_result(max((store / "runs").iterdir()) / "record.json")
    metric = result["latency"]["speedup"]
    if metric.interval is None:
        raise RuntimeError(output)
    gates = tuple(f"{verdict.title}: {verdict.outcome}" for verdict in result.verdicts)
    return Measured(metric.value, metric.interval.low, metric.interval.high, gates)


def summary(measured: dict[str, list[Measured]]) -> str:
    """Return a row for each way, and how far the two agree."""
    rows = []
    for name, runs in measured.items():
        values = [run.value for run in runs]
        lower, _, upper = quantiles(values, n=4)
        width = median(run.high - run.low for run in runs)
        verdicts = Counter(gate for run in runs for gate in run.gates)
        texts = "; ".join(f"{gate} {count}" for gate, count in sorted(verdicts.items()))
        rows.append(
            [name, str(len(runs)), f"{median(values):.4f}", f"{lower:.4f} to {upper:.4f}", f"{width:.4f}", texts]
        )
    head = ["", "runs", "speed-up, median", "quartiles", "width of the interval", "verdicts"]
    first, second = measured.values()
    overlap = sum(a.low <= b.high and b.low <= a.high for a in first for b in second) / (len(first) * len(second))
    same = sum(a.gates == b.gates for a in first for b in second) / (len(first) * len(second))
    text = f"{same:.1%} of all pairs of runs have equal verdicts, and {overlap:.1%} have intervals that overlap."
    return f"{table(head, rows)}\n\n{text}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="of each way")
    parser.add_argument("--seconds", type=float, default=8.0, help="for a measurement")
    parser.add_argument("--sockets", action="store_true", help="an agent without Ray")
    options = parser.parse_args(arguments)
    ways: dict[str, Callable[[Fleet, Path], Measured]] = {
        "by hand": measure_by_hand, "through the agent": measure_through_agent
    }  # fmt: skip
    measured: dict[str, list[Measured]] = {name: [] for name in ways}
    with open_fleet(1, sockets=options.sockets) as fleet:
        file = write_project(fleet.folder / "pair" / "project", options.seconds)
        for number in range(options.runs):
            for name, measure in ways.items():
                measured[name].append(measure(fleet, file))
                print(f"{number + 1}/{options.runs} {name}: {measured[name][-1]}", file=sys.stderr, flush=True)
    sys.stdout.write(f"{machine()}\n\n{summary(measured)}\n")


if __name__ == "__main__":
    main()
