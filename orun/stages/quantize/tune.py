"""Search for the fastest, or smallest, model that is still good enough on a dataset.

The search does what people do by hand:

1. Try the library's recipes: dynamic, static and block-wise quantization, fused operators, and the precisions that the
   target's provider supports.
2. Find the layers that quantization harms most.
3. Keep the worst layers in float, as few as will do, in the cheapest recipe that misses the goal.
4. Let Optuna try further combinations.
5. Measure the finalists again, on all examples.

Each candidate is timed side by side with the original model, by the engine of `measure/latency`. The finalists are
launched alternately, for a quarter of the time that the search took, and the fastest launch of each counts. Other load
on the machine slows some kernels more than others and makes none faster. The result is never worse than the best single
recipe, because all recipes are among the candidates.

For a target with several providers, all are searched: `[OpenVINO, CPU]` compares OpenVINO, in float32 and in bfloat16,
with ONNX Runtime's own kernels, each also with fused operators and static integers. The log says which provider the
result is for. So does the model's property `orun.tune`, as JSON, with the settings of every candidate that no other
beats (the Pareto front).

If inputs always have one size, fix their axes first (`optimize/shapes`): this made OpenVINO 10 to 20 % faster on
MiniLM.

A gate names the goal's metric as the goal does: `gate: {cosine.mean: {min: 0.99}}`.

An interrupted search resumes. The result depends on measurements, so it is bound to the host.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import COUNT, LOWER, SIZE, SPEEDUP, Metric, Quantity
from orun.errors import UnknownName
from orun.measure.accuracy.names import FIDELITY, QUANTITIES, TASK
from orun.stages._data.source import Examples
from orun.stages.contract import Context, Port, Spec
from orun.stages.datasets import find_origin, load_dataset, note_constants, note_misfits
from orun.stages.params import Doc, Duration, Range, Ratio, TargetName

if TYPE_CHECKING:
    from orun.core.targets import Target
    from orun.measure.dataset import Dataset
    from orun.stages.quantize._tuning.judge import Judge
    from orun.stages.quantize._tuning.search import Search
    from orun.stages.quantize._tuning.trial_log import Trial

PROPERTY = "orun.tune"
METRICS: Mapping[str, Quantity] = {"size": SIZE, "nodes": LOWER, "tried": COUNT, "refused": COUNT, "front": COUNT}
PROBES = 8  # examples that show the harm of a layer

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model in float.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy", "optuna"),
    extra="tune",
    stage_class="measurement",
    exclusive=True,
    out_of_process=True,
    builds_with=("optimize/transformer", "quantize/dynamic", "quantize/static", "quantize/weights", "measure/accuracy"),
    preload=("numpy", "onnx", "onnxruntime", "onnxruntime.quantization"),
    calibration_params=("dataset", "calibration"),
    one_of=("at_least", "at_most"),
    metrics={**QUANTITIES, "speedup": SPEEDUP, **METRICS},
)


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/tune`."""

    dataset: Annotated[Examples, Doc("Examples to judge by, in any form that `measure/accuracy` takes.")]
    metric: Annotated[str, Doc("Metric of the goal, by its name in `measure/accuracy` (`cosine.mean`, `accuracy`).")]
    at_least: Annotated[float | Ratio | None, Doc("Lowest acceptable value of the metric.")] = None
    at_most: Annotated[float | Ratio | None, Doc("Highest acceptable value, for a metric where less is better.")] = None
    calibration: Annotated[
        Examples | None, Doc("Examples to calibrate static quantization with; without them it is not tried.")
    ] = None
    target: Annotated[TargetName | None, Doc("Target of the model; the CPU when left out.")] = None
    objective: Annotated[Literal["latency", "size"], Doc("What the search minimizes.")] = "latency"
    fuse: Annotated[bool, Doc("Also try models with fused transformer operators.")] = True
    samples: Annotated[
        int,
        Doc("Examples for every candidate, spread evenly over the data; the finalists are measured on all."),
        Range(1),
    ] = 32
    batch: Annotated[int, Doc("Examples in a timed inference."), Range(1)] = 1
    shape: Annotated[
        dict[str, int], Doc("Sizes of dynamic axes other than the batch, by name, for timing; 128 when left out.")
    ] = field(default_factory=dict)
    time: Annotated[Duration, Doc("Time after which only single recipes are still tried."), Range(0)] = Duration(600)
    trials: Annotated[int, Doc("Most candidates; single recipes are all tried."), Range(1)] = 60


def metrics(params: Params) -> Collection[str]:
    """Return the names of the metrics for some parameters: the goal's, and `speedup` when candidates are timed."""
    return (params.metric, *(("speedup",) if params.objective == "latency" else ()), *METRICS)


def run(context: Context, params: Params) -> Mapping[str, Metric | float]:
    """Search, and write the chosen model to `context.result`."""
    from orun.stages._graph.io import load_graph, save_graph, weigh

    _require_goal(context, params)
    search = _search(context, params)
    chosen, front = search.run()
    source = search.workshop.build_model(chosen.settings, chosen.kept)
    model = load_graph(source)
    summary = {
        "metric": params.metric,
        "chosen": _summarize(chosen, search),
        "front": [_summarize(trial, search) for trial in front],
    }
    model.metadata_props.add(key=PROPERTY, value=json.dumps(summary, sort_keys=True))
    save_graph(model, source, context.result)
    search.trial_log.remove()
    context.log.info("chosen: %s", chosen.settings.title)
    tried = list(search.trial_log.trials.values())
    return {
        **weigh(context.result),
        params.metric: chosen.accuracy,
        **({"speedup": Metric(1 / chosen.time, "x", "higher", "timing")} if params.objective == "latency" else {}),
        "tried": len(tried),
        "refused": sum(bool(trial.refused) for trial in tried),
        "front": len(front),
    }


def _require_goal(context: Context, params: Params) -> None:
    """Refuse unknown metrics, bounds on the wrong side, and parameters that would be ignored."""
    known = [*(name for names in FIDELITY.values() for name in names), *TASK]
    if params.metric not in known:
        message = f"metric: a search cannot judge by {params.metric!r}"
        raise UnknownName(message, params.metric, known, why=f"it judges by {', '.join(known)}")
    direction = QUANTITIES[params.metric].better
    bound = "at_most" if direction == "lower" else "at_least"
    if getattr(params, bound) is None:
        raise context.failed(f"{params.metric} is better when it is {direction}", hint=f"say `{bound}`")
    if params.objective == "size" and (params.shape or params.batch > 1):
        name = "shape" if params.shape else "batch"
        raise context.failed(f"`{name}` is for timing, and with `objective: size` nothing is timed")


def _search(context: Context, params: Params) -> Search:
    from orun.environment import processor
    from orun.measure.dataset import spread_indices
    from orun.stages._graph.feeds import take_example
    from orun.stages._graph.io import list_input_names, load_graph
    from orun.stages._graph.missing import require_ranges
    from orun.stages._graph.signature import count_axes
    from orun.stages.quantize._tuning.build import Workshop
    from orun.stages.quantize._tuning.search import Search
    from orun.stages.quantize._tuning.settings import list_places, list_recipes
    from orun.stages.quantize._tuning.trial_log import TrialLog, hash_search

    variants = list_places(context.model_target)
    dataset = load_dataset(context, params.dataset)
    judge = _judge(context, params, dataset, variants)
    note_misfits(context, judge.request, params.dataset, dataset)
    model = load_graph(context.model())
    datasets = [dataset]
    if params.calibration is not None:  # refuse bad data here, not once a candidate
        datasets.append(load_dataset(context, params.calibration, list_input_names(model)))
        require_ranges(context, datasets[-1])
        note_constants(context, datasets[-1], "calibrated")
    graph = model.graph
    return Search(
        workshop=Workshop(context, params.calibration),
        judge=judge,
        places=variants,
        trial_log=TrialLog(hash_search(context.key, datasets)),
        recipes=list_recipes(
            list(variants),
            {node.op_type for node in graph.node},
            calibrated=params.calibration is not None,
            fusable=params.fuse,
            saturates=processor.saturates(),
        ),
        objective=params.objective,
        trials=params.trials,
        seconds=params.time,
        outputs=[output.name for output in graph.output],
        feeds=[
            take_example(dataset.inputs, number, count_axes(model)) for number in spread_indices(len(dataset), PROBES)
        ],
        log=context.log,
        progress=context.progress,
    )


def _judge(context: Context, params: Params, dataset: Dataset, variants: Mapping[str, Target]) -> Judge:
    from orun.core.targets import Target
    from orun.measure.accuracy.request import Request
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import find_highest
    from orun.stages.quantize._tuning.judge import Goal, Judge
    from orun.stages.timing import Sizes, make_feeds

    name = next((known for known, yielded in FIDELITY.items() if params.metric in yielded), params.metric)
    few = dataset.spread(params.samples)
    if name in FIDELITY:  # the candidates of a retrieval would be compared with the reference as well
        few = replace(few, candidates=None, labels=None)
    feed = make_feeds({"model": context.model()}, Sizes(params.batch, params.shape), context.seed, None)["model"]
    cpu = variants.get("cpu") or Target("cpu", session=dict(context.target.session) if context.target else {})
    return Judge(
        goal=Goal(params.metric, params.at_least, params.at_most),
        request=Request(
            metrics=(name,),
            functions={},
            better={},
            outputs=(),
            batch=1,
            seed=context.seed,
            origin=find_origin(context.root, params.dataset),
            highest=find_highest(load_graph(context.model())),
        ),
        dataset=dataset,
        few=few,
        reference=BenchmarkCase(context.model(), cpu, feed),
        feed=feed,
        seed=context.seed,
    )


def _summarize(trial: Trial, search: Search) -> dict[str, Any]:
    target = search.places[trial.settings.place]
    return {
        **asdict(trial.settings),
        "kept": list(trial.kept),
        "accuracy": trial.accuracy,
        "time": trial.time,
        "size": trial.size,
        "providers": [{provider.name: dict(provider.options)} for provider in target.providers],
    }
