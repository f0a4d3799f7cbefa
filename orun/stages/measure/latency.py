"""Measure a model's latency alone, and against a reference and the accepted baseline side by side.

Wall times are those of inferences one after another, as a user feels them: `p50`, `p90`, `p95`, `p99`, `mean`, `min`,
`max`, `throughput` in examples a second, `load` of the session and its `first` inference. `cpu` is the time of an
inference without waiting for a core, and `speedup` is how many times faster the model is than the reference. With
`device_time: true`, on CUDA and TensorRT, `device` is the time of an inference on the device's stream by its events,
and `host` the CPU time for submitting it: of inferences that follow one another without waiting for the host.

Whether one model is slower than another is measured on time on the CPU, that of the calling thread where several work
and the other model rests meanwhile, in blocks of a few inferences that alternate at random between the two, in
processes that are started anew for each launch. Launches go on until they tell a slow-down of `resolution` from none,
or `time` is used up. On several threads, launches in which threads waited for a core do not count. Against a reference
on one thread, blocks on a core that something else uses do not count. Gates are undecided if too few are left. They are
judged from the stored launches: changing a threshold measures nothing again. One that is far from `resolution` may stay
undecided by them; the verdict says what to set. A session is warmed up for `warmup`, and in the first launch for up to
twenty times as long where its inferences still get faster; all later ones then for as long as that took.

The machine is this stage's own while it runs. The result is bound to the host. The artifact holds `latency.json`, the
launches, and `samples.npz`, the time of each inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.measure.latency.sequential_test import FINEST
from orun.stages.common_parameters import ModelTarget, ReferenceTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range, Ratio, WithUnit
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.core.targets import Target
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.measure.latency.measurement import Budget

FEW_SAMPLES = 36  # which bound p90 with 95 %
ALONE_SHARE = 0.2  # of the time, for samples that nobody asked for
# MLPerf's LoadGen asks for z^2 p (1 - p) / margin^2 queries to know a quantile p; with a margin of half of the tail at
# 95 %, where it takes a twentieth at 99 % (Reddi et al. 2020, "MLPerf Inference Benchmark").
SAMPLES = {"p90": 139, "p95": 292, "p99": 1522}
ENOUGH_SECONDS = 20.0  # for a resolution of 5 % or coarser
ENOUGH_RESOLUTION = 0.05
ENOUGH_LAUNCHES = 8  # of a slow model, a launch of which takes as long as all of a fast one
METRICS = ("p50", "p90", "p95", "p99", "mean", "min", "max", "cpu", "throughput", "load", "first", "speedup")
STREAMED = ("device", "host")  # with `device_time`
SPEC = Spec(
    inputs={
        "model": Port(("onnx", "engine"), "The model to time."),
        "reference": Port(
            ("onnx", "engine"), "The model that it is compared with.", optional=True, many=True, metrics=("speedup",)
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
    metrics=(*METRICS, *STREAMED),
    samples=SAMPLES,
    units={
        **dict.fromkeys((*METRICS, *STREAMED), "s"),
        "throughput": "1/s",
        "speedup": "x",
    },
)


@dataclass(frozen=True)
class Params:
    """Parameters of `measure/latency`."""

    target: ModelTarget = None
    reference_target: ReferenceTarget = None
    inputs: TimedInputs = None
    io_binding: IoBinding = False
    device_time: Annotated[
        bool,
        Doc(
            "Tell the time on the device by its events as well, as `device`, and `host` apart: each launch opens the"
            " models once more; needs `io_binding: true` and CUDA or TensorRT."
        ),
    ] = False
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    warmup: Annotated[
        Duration, Doc("Inference time before the first sample of each session, at least."), Range(low=0), WithUnit()
    ] = Duration(0.05)
    time: Annotated[
        Duration | None,
        Doc(
            "After this time no further launch begins; waiting for a core does not count, up to three times as long"
            " in all. When left out 20 s, more for a `resolution` below 5 %, and eight launches where fewer decide"
            " nothing, up to sixteen where these promise to."
        ),
        Range(low=0),
    ] = None
    resolution: Annotated[
        Ratio,
        Doc("The slow-down that is to be told from none: that of `max_regression`, best; smaller takes longer."),
        Range(low=FINEST),
    ] = Ratio(0.05)
    samples: Annotated[
        int | None,
        Doc(
            "Wall times of the model alone, which may take `time` once more; what the gates on quantiles need when left"
            " out: 139 for p90, 292 for p95, 1522 for p99, and 36 without such."
        ),
        Range(low=6),
    ] = None
    min_launches: Annotated[int, Doc("Launches at least."), Range(low=3)] = 3
    max_launches: Annotated[int, Doc("Launches at most."), Range(low=3)] = 30


def metrics(params: Params) -> tuple[str, ...]:
    """Return the names of the metrics."""
    return (*METRICS, *STREAMED) if params.device_time else METRICS


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Measure; write the launches and the time of each inference."""
    from orun.measure.latency.measurement import measure
    from orun.measure.latency.metrics import metrics_of
    from orun.measure.latency.record import summarize, write

    if params.min_launches > params.max_launches:
        raise StageFailed(
            context.stage,
            f"min_launches is {params.min_launches}, and max_launches is {params.max_launches}",
            hint="allow at least as many launches as there must be",
        )
    if params.device_time:
        _require_stream(context, params)
    subjects = _subjects(context, params)
    measurement = measure(subjects, budget_for(params), context.seed, context.progress)
    write(context.output, measurement, subjects)
    for line in summarize(measurement):
        context.log.info("%s", line)
    return metrics_of(measurement, params.batch)


def _require_stream(context: Context, params: Params) -> None:
    """Refuse `device_time` on a device without a stream, or with a stream that waits for copies."""
    from orun.core.targets import Target
    from orun.measure.latency.cuda_streams import has_stream

    target = context.target or Target("cpu")
    if not has_stream(target):
        why = f"target '{target.name}' runs on {target.providers[0].name}"
        raise StageFailed(
            context.stage,
            "`device_time` is told by events of CUDA",
            why=why,
            hint="leave it out, or name a target of CUDA or TensorRT",
        )
    if not params.io_binding:
        raise StageFailed(
            context.stage,
            "`device_time` is told of inputs and outputs that stay on the device",
            why="where they are copied, the device waits for the host",
            hint="set `io_binding: true`",
        )


def budget_for(params: Params) -> Budget:
    """Return the budget of the measurement; a smaller `resolution` needs more launches and so more time."""
    from orun.measure.latency.measurement import Budget

    time = params.time
    if time is None:
        time = Duration(ENOUGH_SECONDS * max(ENOUGH_RESOLUTION / params.resolution, 1))
    return Budget(
        time=time,
        resolution=params.resolution,
        launches=(params.min_launches, params.max_launches),
        samples=params.samples or FEW_SAMPLES,
        warmup=params.warmup,
        alone=time * (1.0 if params.samples else ALONE_SHARE),
        enough=ENOUGH_LAUNCHES if params.time is None else 0,
    )


def _subjects(context: Context, params: Params) -> dict[str, BenchmarkCase]:
    from orun.core.targets import Target
    from orun.stages.timing import Sizes, make_timed_feeds

    target = context.target or Target("cpu")
    models = {name: context.model(name) for name in context.inputs}
    fed = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    other = context.extra_targets.get("reference_target", target)
    return {
        name: _subject(path, other if name.startswith("reference") else target, fed[name], params)
        for name, path in models.items()
    }


def _subject(path: Path, target: Target, fed: Mapping[str, NDArray[Any]], params: Params) -> BenchmarkCase:
    """Return a benchmark case, timed on a stream where `device_time` asks for it and the target has one."""
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.measure.latency.cuda_streams import has_stream

    return BenchmarkCase(path, target, fed, params.io_binding, streamed=params.device_time and has_stream(target))
