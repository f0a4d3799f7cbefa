"""Search for the fastest, or smallest, model that is still good enough on a dataset.

What people do by hand: try the library's recipes (dynamic, static and block-wise quantization, fused operators) and,
where the target has one, the precisions that its provider can compute in; find out which layers suffer most; leave the
worst of them out of the cheapest recipe that falls short, as few as will do; let Optuna try further combinations; and
measure the finalists again, on all examples. Each candidate is timed side by side with the model itself, by
`measure/latency`'s engine; the finalists are launched in turn, a quarter as long as the search took, and of each the
fastest launch counts: what else keeps the processor busy slows some kinds of kernels more than others, and makes none
faster. The result is never worse than the best single recipe: all of them are among the candidates.

A target with several providers is searched over all of them: `[OpenVINO, CPU]` compares OpenVINO, in float32 and in
bfloat16, with ONNX Runtime's own kernels, each with fused operators and static integers, too. Which of them the result
is for is in the log, and with the settings of every candidate that no other beats (the Pareto front) in the model's
property `orun.tune`, as JSON.

Where inputs are always of one size, fix their axes before (`optimize/shapes`): OpenVINO was a tenth to a fifth faster
so on MiniLM.

An interrupted search goes on where it was. The result depends on what was measured, so that it is bound to the host.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed, UnknownName
from orun.stages._data.source import Examples
from orun.stages.contract import Context, Port, Spec
from orun.stages.datasets import load_dataset, title
from orun.stages.params import Doc, Duration, Range, Ratio, TargetName

if TYPE_CHECKING:
    from orun.core.targets import Target
    from orun.measure.dataset import Dataset
    from orun.stages.quantize._tuning.judge import Judge
    from orun.stages.quantize._tuning.ledger import Trial
    from orun.stages.quantize._tuning.search import Search

PROPERTY = "orun.tune"
METRICS = ("accuracy", "speedup", "size", "nodes", "tried", "refused", "front")
PROBES = 8  # examples by which the harm of a layer is found

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model in float.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy", "optuna"),
    extra="tune",
    stage_class="measurement",
    exclusive=True,
    distant=True,
    builds_with=("optimize/transformer", "quantize/dynamic", "quantize/static", "quantize/weights", "measure/accuracy"),
    preload=("numpy", "onnx", "onnxruntime", "onnxruntime.quantization"),
    fits=("dataset", "calibration"),
    one_of=("at_least", "at_most"),
)


@dataclass(frozen=True)
class Params:
    """What is good enough, and how long to look."""

    dataset: Annotated[Examples, Doc("Examples to judge by, in any form that `measure/accuracy` takes.")]
    metric: Annotated[str, Doc("What is to be kept, by its name in `measure/accuracy` (`cosine.mean`, `accuracy`).")]
    at_least: Annotated[float | Ratio | None, Doc("Least value of the metric that is good enough.")] = None
    at_most: Annotated[float | Ratio | None, Doc("Largest value that is, for a metric where less is better.")] = None
    calibration: Annotated[
        Examples | None, Doc("Examples that ranges of static quantization are measured by; none is tried without.")
    ] = None
    target: Annotated[TargetName | None, Doc("Where the model is to run; the CPU when left out.")] = None
    objective: Annotated[Literal["latency", "size"], Doc("What is to be small.")] = "latency"
    fuse: Annotated[bool, Doc("Also try models with fused transformer operators.")] = True
    samples: Annotated[int, Doc("Examples that every candidate is tried on; the finalists see all."), Range(1)] = 32
    batch: Annotated[int, Doc("Examples in an inference that is timed."), Range(1)] = 1
    shape: Annotated[
        dict[str, int], Doc("Sizes of dynamic axes other than the batch, by name, while it is timed; 128 by default.")
    ] = field(default_factory=dict)
    time: Annotated[Duration, Doc("After this time only single recipes are still tried."), Range(0)] = Duration(600)
    trials: Annotated[int, Doc("Candidates at most; single recipes are all tried."), Range(1)] = 60


def metrics(params: Params) -> Collection[str]:
    """Names of the metrics that these parameters yield: without `speedup` when nothing is timed."""
    return METRICS if params.objective == "latency" else [name for name in METRICS if name != "speedup"]


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Search, and write the chosen model to `context.result`."""
    from orun.stages._graph.io import load_graph, save_graph, weigh

    _require_meant(context, params)
    search = _search(context, params)
    chosen, front = search.run()
    source = search.workshop.model(chosen.settings, chosen.kept)
    model = load_graph(source)
    told = {"metric": params.metric, "chosen": _told(chosen, search), "front": [_told(one, search) for one in front]}
    model.metadata_props.add(key=PROPERTY, value=json.dumps(told, sort_keys=True))
    save_graph(model, source, context.result)
    search.ledger.remove()
    context.log.info("chosen: %s", chosen.settings.title)
    tried = list(search.ledger.trials.values())
    return {
        **weigh(context.result),
        "accuracy": Metric(chosen.accuracy, better="higher" if params.at_least is not None else "lower"),
        **({"speedup": Metric(1 / chosen.time, "x", "higher", "timing")} if params.objective == "latency" else {}),
        "tried": Metric(len(tried)),
        "refused": Metric(sum(bool(one.refused) for one in tried)),
        "front": Metric(len(front)),
    }


def _require_meant(context: Context, params: Params) -> None:
    """Refuse goals that no model can be held to, and what would be ignored."""
    from orun.measure.accuracy.names import ERRORS, FIDELITY, TASK

    known = [*(name for names in FIDELITY.values() for name in names), *TASK]
    if params.metric not in known:
        what = f"metric: `measure/accuracy` has no {params.metric!r}"
        raise UnknownName(what, params.metric, known, why=f"it has {', '.join(known)}")
    less = params.metric.partition(".")[0] in ERRORS
    if less != (params.at_most is not None):
        told = "less" if less else "more"
        right = "at_most" if less else "at_least"
        raise StageFailed(context.stage, f"{params.metric} is better when there is {told} of it", hint=f"say `{right}`")
    if params.objective == "size" and (params.shape or params.batch > 1):
        name = "shape" if params.shape else "batch"
        raise StageFailed(context.stage, f"`{name}` is for what is timed, and with `objective: size` nothing is")


def _search(context: Context, params: Params) -> Search:
    from orun.core.targets import Target as Where
    from orun.environment import processor
    from orun.stages._graph.feeds import one_example
    from orun.stages._graph.io import input_names, load_graph
    from orun.stages._graph.missing import require_ranges
    from orun.stages._graph.signature import ranks_of
    from orun.stages.quantize._tuning.build import Workshop
    from orun.stages.quantize._tuning.ledger import Ledger, name_of
    from orun.stages.quantize._tuning.search import Search
    from orun.stages.quantize._tuning.settings import places, recipes

    where = places(context.target or Where("cpu"))
    dataset = load_dataset(context, params.dataset)
    calibrated = params.calibration is not None
    model = load_graph(context.model())
    datasets = [dataset]
    if params.calibration is not None:  # refused here, not with every candidate
        datasets.append(load_dataset(context, params.calibration, input_names(model)))
        require_ranges(context, datasets[-1])
    graph = model.graph
    return Search(
        workshop=Workshop(context, params.calibration, 128),
        judge=_judge(context, params, dataset, where),
        places=where,
        ledger=Ledger(name_of(context.key, datasets)),
        recipes=recipes(
            list(where),
            {node.op_type for node in graph.node},
            calibrated=calibrated,
            fusable=params.fuse,
            saturates=processor.saturates(),
        ),
        objective=params.objective,
        trials=params.trials,
        seconds=params.time,
        outputs=[output.name for output in graph.output],
        feeds=[one_example(dataset.inputs, number, ranks_of(model)) for number in range(min(PROBES, len(dataset)))],
        log=context.log,
        progress=context.progress,
    )


def _judge(context: Context, params: Params, dataset: Dataset, where: Mapping[str, Target]) -> Judge:
    from orun.core.targets import Target as Where
    from orun.measure.accuracy.names import FIDELITY
    from orun.measure.accuracy.request import Request
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.stages.quantize._tuning.judge import Goal, Judge
    from orun.stages.timing import Sizes, feeds

    name = next((known for known, yielded in FIDELITY.items() if params.metric in yielded), params.metric)
    few = dataset.take(params.samples)
    if name in FIDELITY:  # the candidates of a retrieval would be compared with the reference, too
        few = replace(few, candidates=None, labels=None)
    feed = feeds({"model": context.model()}, Sizes(params.batch, params.shape), context.seed, None)["model"]
    cpu = where.get("cpu") or Where("cpu", session=dict(context.target.session) if context.target else {})
    return Judge(
        goal=Goal(params.metric, params.at_least, params.at_most),
        request=Request(context.stage, (name,), {}, {}, (), 1, context.seed, source=title(params.dataset)),
        dataset=dataset,
        few=few,
        reference=BenchmarkCase(context.model(), cpu, feed),
        feed=feed,
        seed=context.seed,
    )


def _told(trial: Trial, search: Search) -> dict[str, Any]:
    """A trial for the model's property."""
    target = search.places[trial.settings.place]
    return {
        **asdict(trial.settings),
        "kept": list(trial.kept),
        "accuracy": trial.accuracy,
        "time": trial.time,
        "size": trial.size,
        "providers": [{one.name: dict(one.options)} for one in target.providers],
    }
