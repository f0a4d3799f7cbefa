"""Measure a model's latency alone, and against a reference and the accepted baseline side by side.

| metric | meaning |
|---|---|
| `p50`, `p90`, `p95`, `p99`, `mean`, `min`, `max` | wall time of an inference, one after another, as a user sees it |
| `throughput` | examples per second |
| `load`, `first` | time to make the session, and time of its first inference |
| `cpu` | time of an inference without the time spent waiting for a core |
| `speedup` | how many times as fast as the reference the model is |
| `device`, `host` | with `device_time: true`: time on the device's stream, and CPU time to submit the inference |

Models are compared by CPU time, in blocks of a few inferences that alternate at random between the two, in new
processes for each launch. Launches go on until they tell a slow-down of `resolution` from none, or `time` is used up.
On several threads, launches in which threads waited for a core do not count. Against a reference on one thread, blocks
on a core that something else uses do not count. With too few left, gates are undecided.

Gates are judged from the stored launches, so a new threshold measures nothing again. If a threshold is far from
`resolution`, the gate may be undecided; its verdict then says what to set. A session is warmed up for `warmup`. If its
inferences still get faster, the first launch warms up for up to twenty times as long, and later launches for as long as
the first needed.

The reference can be the model that a convert stage takes, in its own framework: `needs: {model: int8, reference:
export}` with `reference_runtime: torch` measures the `speedup` over PyTorch. It runs on the CPU, in a process of its
own, with the threads of its target (`intra_op_num_threads`). Inputs are converted beforehand; outputs stay as the
framework returns them. Keras models and SavedModels are timed as a traced `tf.function`, TFLite files in their
interpreter, estimators by `predict_proba` or another method with scores, else by `predict`.

With `device_time`, inferences are submitted without waiting for the one before. If `host` is as long as `device`, the
device waited to be given work: a larger `batch` shows its own time.

The stage has the machine to itself. The result is bound to the host. The artifact holds `latency.json` with the
launches, and `samples.npz` with the time of each inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import RATE, SPEEDUP, TIME, Metric
from orun.stages.common_parameters import ModelTarget, ReferenceTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.latency_budget import LAUNCHES, SAMPLES, WARMUP, MeasuringTime, Resolution, Samples, make_budget
from orun.stages.params import Doc, Duration, Range, Ratio, WithUnit
from orun.stages.reference_models import ReferenceRuntime, build_openers
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.measure.latency.measurement import Budget

METRICS = ("p50", "p90", "p95", "p99", "mean", "min", "max", "cpu", "throughput", "load", "first", "speedup")
STREAMED = ("device", "host")  # with `device_time`
SPEC = Spec(
    inputs={
        "model": Port(("onnx", "engine"), "The model to time."),
        "reference": Port(
            ("onnx", "engine"),
            "The model that it is compared with.",
            optional=True,
            many=True,
            metrics=("speedup",),
            runtime="reference_runtime",
        ),
    },
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    out_of_process=True,
    preload=("numpy", "onnx", "onnxruntime"),
    baseline=True,
    metrics={**dict.fromkeys((*METRICS, *STREAMED), TIME), "throughput": RATE, "speedup": SPEEDUP},
    samples=SAMPLES,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `measure/latency`."""

    target: ModelTarget = None
    reference_target: ReferenceTarget = None
    reference_runtime: ReferenceRuntime = "onnxruntime"
    inputs: TimedInputs = None
    io_binding: IoBinding = False
    device_time: Annotated[
        bool,
        Doc(
            "Measure `device` and `host` as well, in one more session of each model in each launch; needs"
            " `io_binding: true` and CUDA or TensorRT."
        ),
    ] = False
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    warmup: Annotated[
        Duration, Doc("Least inference time before the first sample of each session."), Range(low=0), WithUnit()
    ] = Duration(WARMUP)
    time: MeasuringTime = None
    resolution: Resolution = Ratio(0.05)
    samples: Samples = None
    min_launches: Annotated[int, Doc("Least number of launches."), Range(low=3)] = LAUNCHES[0]
    max_launches: Annotated[int, Doc("Largest number of launches."), Range(low=3)] = LAUNCHES[1]


def metrics(params: Params) -> tuple[str, ...]:
    """Return the names of the metrics."""
    return (*METRICS, *STREAMED) if params.device_time else METRICS


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Measure; write the launches and the time of each inference."""
    from orun.measure.latency.measurement import measure
    from orun.measure.latency.metrics import build_metrics
    from orun.measure.latency.record import summarize, write
    from orun.measure.workers import WorkerProcess
    from orun.stages.timing import count_examples

    if params.min_launches > params.max_launches:
        raise context.failed(
            f"min_launches is {params.min_launches}, and max_launches is {params.max_launches}",
            hint="set `max_launches` to at least `min_launches`",
        )
    if params.device_time:
        _require_stream(context, params)
    cases = build_benchmark_cases(context, params)
    measurement = measure(cases, build_budget(params), context.seed, context.progress, WorkerProcess)
    for name, session in measurement.launches[0].sessions.items():
        if session.framework:
            context.note(f"the {name} is the model that {context.sources[name].stage} converts, in {session.framework}")
    write(context.output, measurement, cases)
    for line in summarize(measurement):
        context.log.info("%s", line)
    model = cases["model"]
    return build_metrics(measurement, count_examples(model.model, model.feeds, params.batch))


def _require_stream(context: Context, params: Params) -> None:
    """Refuse `device_time` on a device without a stream, or with a stream that waits for copies."""
    from orun.measure.latency.cuda_streams import has_stream

    target = context.model_target
    if not has_stream(target):
        why = f"target '{target.name}' runs on {target.providers[0].name}"
        raise context.failed(
            "`device_time` needs a device with CUDA",
            why=why,
            hint="leave it out, or name a target of CUDA or TensorRT",
        )
    if not params.io_binding:
        raise context.failed(
            "`device_time` needs inputs and outputs that stay on the device",
            why="while they are copied, the device waits for the host",
            hint="set `io_binding: true`",
        )


def build_budget(params: Params) -> Budget:
    """Return the budget of the measurement."""
    launches = (params.min_launches, params.max_launches)
    return make_budget(params.time, params.resolution, params.samples, params.warmup, launches)


def build_benchmark_cases(context: Context, params: Params) -> dict[str, BenchmarkCase]:
    """Return the benchmark case of each connected model, timed on a stream if `device_time` is set and there is one."""
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.measure.latency.cuda_streams import has_stream
    from orun.stages.timing import Sizes, make_timed_feeds

    target = context.model_target
    models = {name: context.model(name) for name in context.inputs}
    feeds = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    other = context.extra_targets.get("reference_target", target)
    targets = {name: other if name.startswith("reference") else target for name in models}
    sources = build_openers(context, targets)
    return {
        name: BenchmarkCase(
            path,
            targets[name],
            feeds[name],
            params.io_binding,
            streamed=params.device_time and has_stream(targets[name]) and name not in sources,
            source=sources.get(name),
        )
        for name, path in models.items()
    }
