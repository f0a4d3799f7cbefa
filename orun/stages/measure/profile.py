"""Measure where the time of an inference goes, by node, operator and provider, and what makes one model slower.

ONNX Runtime's profiler times each node. Models alternate, in new processes for each launch. Of a node's times the
fastest tenth counts, in which nothing else took its core. The figure of a node is the median over launches.

With a `reference`, nodes are matched by name; where names differ, by type and shape in order. Nodes of one model alone
are compared with the other's nodes in their place. The difference is split by place and by operator, with shares that
add up to 1. The nodes are those of the optimized graph, so fused nodes have ONNX Runtime's names.

Metrics: `total` of all nodes; `outside`, time of an inference outside nodes; `nodes`, how many run; `busiest`, the
share of the slowest node. The profiler slows inference down, so use `measure/latency` for its duration. It counts in
microseconds, so it cannot compare nodes that take less. The artifact holds `profile.json` and `profile.md`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import LOWER, SHARE, TIME, Comparison, Estimate, Metric, Quantity
from orun.core.serialization import encode
from orun.stages.common_parameters import ModelTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range, WithUnit
from orun.stages.timing import Batch, Shape, TimedInputs

if TYPE_CHECKING:
    from orun.diagnosis.profiles import ModelTimes
    from orun.diagnosis.slower import TimeDifference

SHOWN = 20  # rows of a table in profile.md

SPEC = Spec(
    inputs={
        "model": Port(("onnx", "engine"), "The model to profile."),
        "reference": Port(("onnx", "engine"), "The model that it is compared with.", optional=True),
    },
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"total": TIME, "outside": Quantity("s", "lower"), "nodes": LOWER, "busiest": SHARE},
)


@dataclass(frozen=True)
class Params:
    """Parameters of `measure/profile`."""

    target: ModelTarget = None
    inputs: TimedInputs = None
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    launches: Annotated[int, Doc("Launches of each model."), Range(low=2)] = 3
    runs: Annotated[int, Doc("Inferences of each model in a launch."), Range(low=1)] = 40
    warmup: Annotated[Duration, Doc("Inference time before the first of them."), Range(low=0), WithUnit()] = Duration(
        0.05
    )


def run(context: Context, params: Params) -> Mapping[str, Metric | float]:
    """Profile the models; write the tables."""
    from orun.diagnosis.profiles import Course, profile
    from orun.diagnosis.slower import compare
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.stages.timing import Sizes, make_timed_feeds

    target = context.model_target
    models = {role: context.model(role) for role in ("model", "reference") if role in context.inputs}
    fed = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    subjects = {role: BenchmarkCase(path, target, fed[role]) for role, path in models.items()}
    course = Course(params.launches, params.runs, params.warmup, context.seed)
    times = profile(subjects, course, context.progress)
    slower = compare(times["model"], times["reference"]) if "reference" in times else None
    _write(context, times, slower)
    return _build_metrics(times)


def _build_metrics(times: Mapping[str, ModelTimes]) -> dict[str, Metric | float]:
    from orun.measure.latency.sequential_test import Evidence

    model = times["model"]
    total = Evidence.from_log_ratios([math.log(value) for value in model.totals]).ratio
    slowest = max((node.seconds for node in model.nodes), default=0.0)  # all of them may have been folded away
    return {
        "total": Metric(total.value, "s", "lower", "timing", total, _compare_times(times)),
        "outside": Metric(model.outside, "s", "lower", "timing"),
        "nodes": len(model.nodes),
        "busiest": Metric(slowest / model.total, "ratio", noise="timing"),
    }


def _compare_times(times: Mapping[str, ModelTimes]) -> Comparison | None:
    from orun.measure.latency.sequential_test import Evidence

    if "reference" not in times:
        return None
    pairs = zip(times["model"].totals, times["reference"].totals, strict=True)
    evidence = Evidence.from_log_ratios([math.log(ours / theirs) for ours, theirs in pairs])
    other, ratio, count = times["reference"].total, evidence.ratio, evidence.count
    difference = Estimate(*(other * (value - 1) for value in (ratio.value, ratio.low, ratio.high)))
    method = f"time of undisturbed nodes, {count} launches"
    return Comparison(other, ratio, difference, method, count, spread=evidence.spread)


def _write(context: Context, times_by_role: Mapping[str, ModelTimes], slower: TimeDifference | None) -> None:
    document: dict[str, Any] = {
        "format": 1,
        "models": {role: _build_model_document(times) for role, times in times_by_role.items()},
    }
    if slower:
        document["slower"] = encode(slower)
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (context.output / "profile.json").write_text(text, encoding="utf-8")
    lines = [*_format_table(times_by_role["model"]), *(["", *_format_differences(slower)] if slower else [])]
    (context.output / "profile.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for line in lines:
        context.log.info("%s", line)


def _build_model_document(times: ModelTimes) -> dict[str, Any]:
    providers: dict[str, float] = {}
    for node in times.nodes:
        providers[node.node.provider] = providers.get(node.node.provider, 0.0) + node.seconds
    return {
        "total": times.total,
        "outside": times.outside,
        "launches": list(times.totals),
        "providers": providers,
        "nodes": [{**encode(node.node), "seconds": node.seconds} for node in times.nodes],
    }


def _format_table(times: ModelTimes) -> list[str]:
    from orun.diagnosis.slower import name_node
    from orun.text.units import show

    rows = sorted(times.nodes, key=lambda row: (-row.seconds, row.node.index))[:SHOWN]
    lines = ["| node | operator | provider | time | share |", "|---|---|---|---|---|"]
    for row in rows:
        share = row.seconds / times.total
        lines.append(
            f"| {name_node(row)} | {row.node.op} | {row.node.provider} | {show(row.seconds, 's')} | {share:.1%} |"
        )
    return lines


def _format_differences(slower: TimeDifference) -> list[str]:
    from orun.text.units import show

    lines = [f"Against the reference: {show(slower.seconds, 's')}, of which", ""]
    for title, shares in (("operator", slower.operators), ("place", slower.places)):
        lines += [f"| {title} | time | reference | difference | share |", "|---|---|---|---|---|"]
        for share in shares[:SHOWN]:
            figures = [show(value, "s") for value in (share.seconds, share.reference, share.difference)]
            lines.append(f"| {share.name} | {' | '.join(figures)} | {share.share:.1%} |")
        lines.append("")
    return lines[:-1]
