"""False alarms, power and cost of the latency gate, against the gates of other tools at the same time.

Slow-downs are planted into a real model as extra nodes, and noise processes run. Each gate is complete: a measurement
of `measure/latency`, judged by `max_regression`. Next to each gate, the same two models are timed in sequence, as other
tools do it.

    python -m benchmarks.gate_power --gates 400 --out power.jsonl     hours
    python -m benchmarks.gate_power --cases 0:0.05:400 0.05:0.05:100  with these numbers of gates
    python -m benchmarks.gate_power --gates 0 --out power.jsonl       only the table of the results so far
    python -m benchmarks.gate_power --quick                           a small model, minutes

Every gate is a line of `--out`. A benchmark that is started again continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gate_table import read_lines, table
from benchmarks.planting import noise, plant
from benchmarks.rival_gates import RIVALS, RUNS, Floats
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent
from orun.core.metrics import Metric
from orun.core.source_location import Position
from orun.core.targets import Target
from orun.core.verdict import Verdict
from orun.gates.baseline_file import Accepted
from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency.measurement import Measurement, measure
from orun.measure.latency.metrics import build_metrics
from orun.measure.workers import WorkerProcess
from orun.pipeline.model import Gate, Stage, Threshold
from orun.planning.key_diff import list_key_changes
from orun.report.gates import explain_verdict
from orun.stages.measure.latency import Params, build_budget
from orun.stages.params import Duration, Ratio
from orun.stages.timing import Sizes, make_feeds
from orun.store.records import Action, ImplicitDependencies

Case = tuple[float, ...]  # planted, max_regression

POSITION = Position("gate_power.py", 1, 1)
CASES = ((0.0, 0.05), (0.05, 0.05), (0.10, 0.05), (0.0, 0.02), (0.02, 0.02))  # planted, max_regression
SPREAD = 0.006  # approximate spread of the launches of a gate
SURE = 0.06  # standard error of the planted slow-down, as a share of it
PATIENCE = 1e6  # seconds
FIRST_RANK = 64
TRIES = 3
NEAR = 0.1  # accepted deviation of the planted slow-down; the table shows the true one, from all launches


def main() -> None:
    """Run the gates that are missing in the output file, and print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder, noise(options.noise, options.seed):
        os.chdir(folder)
        model = _model(options, Path(folder))
        done = read_lines(options.out)
        planted = {0.0: (model, 0.0)}
        order = order_cases(options.cases, done)
        for slowdown in sorted({slowdown for slowdown, _ in order} - {0.0}):
            planted[slowdown] = _plant(options, model, Path(folder) / f"slower_{slowdown}.onnx", slowdown)
        for number, case in enumerate(order):
            path, truth = planted[case[0]]
            rivals = options.rivals and number % options.rivals == 0
            line = {"planted": case[0], "limit": case[1], "truth": truth}
            line |= _trial(options, model, path, case[1], rivals=rivals)
            done.append(line)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    print("\n".join(table(done)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--model", type=Path, help="an ONNX model; the exported MiniLM of pipelines/bert.yaml when left out"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, help="size of the axis of that name; 128 when left out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--noise", type=int, default=os.cpu_count() or 1, help="noise processes")
    parser.add_argument("--gates", type=int, default=100, help="gates of each case")
    parser.add_argument("--time", type=Duration, help="time budget of a gate in seconds; that of measure/latency else")
    parser.add_argument(
        "--rivals", type=int, default=1, help="run the other gates too, once for so many gates; 0 for never"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "gate_power.jsonl")
    parser.add_argument("--cases", type=_case, nargs="+", default=CASES, help="planted:limit[:gates]")
    parser.add_argument("--quick", action="store_true", help="a small model, two gates of each case")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.model = options.model.resolve() if options.model else None
    gates = 2 if options.quick else options.gates
    options.cases = {case[:2]: int(case[2]) if len(case) > 2 else gates for case in options.cases}  # noqa: PLR2004
    return options


def _case(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(":"))


def _model(options: argparse.Namespace, folder: Path) -> Path:
    if options.quick:
        return write_stack(folder / "small.onnx", rows=128, width=256, layers=4)  # takes about 0.2 ms
    if options.model:
        return Path(options.model)
    import orun

    result = orun.run(Path(__file__).parent.parent / "pipelines/bert.yaml", to=["export"])
    return Path(result["export"].out) / "model.onnx"


def write_stack(path: Path, rows: int, width: int, layers: int) -> Path:
    """Write a model of matrix products, each followed by a Relu."""
    generator, nodes, tensors = np.random.default_rng(0), [], []
    for layer in range(layers):
        weight = generator.standard_normal((width, width), dtype=np.float32) / math.sqrt(width)
        tensors.append(numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"h{layer + 1}"]))
    ends = [helper.make_tensor_value_info(f"h{end}", TensorProto.FLOAT, [rows, width]) for end in (0, layers)]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def _subjects(options: argparse.Namespace, models: Mapping[str, Path]) -> dict[str, BenchmarkCase]:
    axes = {"sequence": options.sequence} if options.sequence else {}
    fed = make_feeds(models, Sizes(options.batch, axes), options.seed, None)
    target = Target("cpu", session={"intra_op_num_threads": options.threads})
    return {name: BenchmarkCase(path, target, fed[name]) for name, path in models.items()}


def _measure(
    options: argparse.Namespace, subjects: Mapping[str, BenchmarkCase], resolution: float, fewest: int
) -> Measurement:
    most = max(fewest, Params().max_launches)
    params = Params(resolution=Ratio(resolution), time=options.time, min_launches=fewest, max_launches=most)
    return measure(subjects, build_budget(params), random.randrange(1 << 30), lambda *_: None, WorkerProcess)


def _plant(options: argparse.Namespace, model: Path, path: Path, slowdown: float) -> tuple[Path, float]:
    """Return a model that is slower by about `slowdown`, and its true slow-down; calibrated once for an output file."""
    notes = options.out.with_suffix(".planted.json")
    known = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else {}
    if str(slowdown) not in known:
        known[str(slowdown)] = _calibrate(options, model, path, slowdown)
        notes.write_text(json.dumps(known), encoding="utf-8")
    sites, rank, truth = known[str(slowdown)]
    print(f"planted {slowdown:.0%}: {sites} times rank {rank}, truly {truth:.2%}", flush=True)
    plant(model, path, sites, rank)
    return path, truth


def _calibrate(options: argparse.Namespace, model: Path, path: Path, slowdown: float) -> tuple[int, int, float]:
    """Return the number and size of the nodes to plant, and the slow-down over many launches."""
    tried: dict[tuple[int, int], float] = {}
    for sites in (4, 1):
        rank = FIRST_RANK
        while len(tried) < TRIES and (sites, rank) not in tried:
            plant(model, path, sites, rank)
            tried[sites, rank] = truth = _truth(options, model, path, slowdown)
            if abs(truth / slowdown - 1) < NEAR:
                return sites, rank, truth
            rank = max(round(rank * slowdown / max(truth, 0.001)), 1)
    sites, rank = min(tried, key=lambda way: abs(tried[way] - slowdown))
    return sites, rank, tried[sites, rank]


def _truth(options: argparse.Namespace, model: Path, path: Path, slowdown: float) -> float:
    patient = argparse.Namespace(**{**vars(options), "time": Duration(PATIENCE)})
    subjects = _subjects(patient, {"model": path, "baseline": model})
    launches = 3 if options.quick else max(math.ceil((SPREAD / (SURE * slowdown)) ** 2), 12)
    measurement = _measure(patient, subjects, 0.05, launches)
    return float(np.expm1(np.median(measurement.list_log_ratios("baseline"))))


def order_cases(cases: Mapping[Case, int], done: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Return the missing gates, each case spread evenly, so that all cases are measured at all hours of the day."""
    counts: Counter[Case] = Counter((line["planted"], line["limit"]) for line in done)
    missing = [((number + 0.5) / gates, case) for case, gates in cases.items() for number in range(counts[case], gates)]
    return [case for _, case in sorted(missing)]


def _trial(options: argparse.Namespace, model: Path, slower: Path, limit: float, *, rivals: bool) -> dict[str, Any]:
    subjects = _subjects(options, {"model": slower, "baseline": model})
    spent = _cpu_seconds()
    measurement = _measure(options, subjects, limit, Params().min_launches)
    outcome, why = judge_measurement(measurement, limit, options.batch)
    line: dict[str, Any] = {"ours": outcome, "why": why, "launches": measurement.list_log_ratios("baseline")}
    line |= {"seconds": measurement.seconds, "cpu_seconds": _cpu_seconds() - spent}
    line |= {"load": measurement.pressure.load, "pressure": measurement.pressure.cpu}
    if rivals:
        before, after = (_alone(subjects[name]) for name in ("baseline", "model"))
        line["rivals"] = {name: rival(before, after, limit) for name, rival in RIVALS.items()}
    return line


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its ended child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _alone(subject: BenchmarkCase) -> Floats:
    with WorkerProcess(subject) as worker:
        worker.open(0.0)
        worker.time(RUNS)
        return worker.time(RUNS).wall


def judge_measurement(measurement: Measurement, limit: float, batch: int) -> tuple[str, str]:
    """Return the outcome of the gate on a measurement, and why."""
    verdict = judge_metrics(build_metrics(measurement, batch), regression_gate(limit))
    return verdict.outcome, explain_verdict(verdict)


def regression_gate(limit: float) -> Gate:
    """Return a gate on the median that fails a model slower than the accepted one by more than the limit."""
    threshold = Threshold(limit, relative=True, text=f"{limit:.0%}", unit="ratio")
    return Gate("p50", "max_regression", threshold, "fail", POSITION)


def judge_metrics(metrics: Mapping[str, Metric], gate: Gate) -> Verdict:
    """Return the verdict of a gate on what `measure/latency` has measured."""
    stage = Stage(
        "latency", "measure/latency", POSITION, needs={"model": "slower"}, params=vars(Params()), gates=(gate,)
    )
    inputs = (KeyComponent(ComponentKind.INPUT, "model", value="slower"),)
    action = Action("", inputs, ImplicitDependencies(), "", 0, metrics, "", "", "latency", {}, 0, 0, 0, 0)
    return judge(stage, action, Terms(Accepted("original", {}, {}, "", "", ""), {}, list_key_changes))[0]


if __name__ == "__main__":
    main()
