"""Measure a model's latency in a web page, alone and against other models'.

npm's `onnxruntime-web` must be installed in the project, in the version that the stage names: `npm install --save-exact
onnxruntime-web@1.30.0`. It runs the model with WebAssembly, in Chromium or in Node.js. `check/web` compares its answers
with the CPU's.

The metrics of latency, and the way to get them, are those of `measure/latency`: both models run in onnxruntime-web, in
blocks that alternate, in a new page or process for each launch. `load` includes the time to load and compile the
runtime. On one thread models are compared by CPU time, on several by wall time, which needs a quiet machine.

Every build of onnxruntime-web since 1.19 needs SIMD and can use threads; a build without SIMD does not exist any more.
`threads: 1` is what a page gets on a server that does not isolate it (see `release/web`). More threads need that
isolation, which the stage's own server gives.

The stage has the machine to itself. The result is bound to the host. The artifact holds the files of `measure/latency`.
The `framework` of a session in `latency.json` names the browser or Node.js, and its threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orun.core.metrics import RATE, SPEEDUP, TIME, Metric
from orun.stages._web.parameters import NodeModules, OnnxruntimeWeb, Runtime, Threads, build_runtime
from orun.stages.contract import Context, Port, Spec
from orun.stages.latency_budget import SAMPLES, MeasuringTime, Resolution, Samples, make_budget
from orun.stages.params import Ratio
from orun.stages.timing import Batch, Shape, TimedInputs

if TYPE_CHECKING:
    from pathlib import Path

    from orun.measure.benchmark_case import BenchmarkCase

TIMES = ("p50", "p90", "p95", "p99", "mean", "min", "max", "cpu", "load", "first")
SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to run."),
        "reference": Port(
            ("onnx",), "The model that its latency is compared with.", optional=True, many=True, metrics=("speedup",)
        ),
    },
    output="metrics",
    tools=("onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    preload=("numpy", "onnx"),
    baseline=True,
    metrics={**dict.fromkeys(TIMES, TIME), "throughput": RATE, "speedup": SPEEDUP},
    samples=SAMPLES,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `measure/web`."""

    onnxruntime_web: OnnxruntimeWeb
    node_modules: NodeModules = ""
    runtime: Runtime = "chromium"
    threads: Threads = 1
    inputs: TimedInputs = None
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    time: MeasuringTime = None
    resolution: Resolution = Ratio(0.05)
    samples: Samples = None


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Measure; write the launches and the time of each inference."""
    from orun.measure.latency.measurement import measure
    from orun.measure.latency.metrics import build_metrics
    from orun.measure.latency.record import summarize, write
    from orun.measure.web.worker import WebWorker, choose_method
    from orun.stages.timing import count_examples

    runtime = build_runtime(context, params.onnxruntime_web, params.node_modules, params.runtime, params.threads)
    cases, external_data = _build_benchmark_cases(context, params)
    measurement = measure(
        cases,
        make_budget(params.time, params.resolution, params.samples),
        context.seed,
        context.progress,
        lambda case: WebWorker(runtime, case, external_data[case.model]),
        choose_method(runtime),
    )
    write(context.output, measurement, cases)
    context.log.info("%s", measurement.launches[0].sessions["model"].framework)
    for line in summarize(measurement):
        context.log.info("%s", line)
    model = cases["model"]
    return build_metrics(measurement, count_examples(model.model, model.feeds, params.batch))


def _build_benchmark_cases(
    context: Context, params: Params
) -> tuple[dict[str, BenchmarkCase], dict[Path, tuple[str, ...]]]:
    """Return the benchmark case of each connected model, and the files of external data by its path."""
    from orun.core.targets import Target
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.stages._graph.io import list_external_files, load_graph
    from orun.stages._web.interface import require_fit
    from orun.stages.timing import Sizes, make_timed_feeds

    graphs = {role: load_graph(context.model(role)) for role in context.inputs}
    for graph in graphs.values():
        require_fit(context, graph)
    feeds = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    target = Target(params.runtime)
    cases = {role: BenchmarkCase(context.model(role), target, feeds[role]) for role in graphs}
    return cases, {cases[role].model: list_external_files(graph) for role, graph in graphs.items()}
