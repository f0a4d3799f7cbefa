"""Measure a model's accuracy on a dataset, against a reference model and the accepted baseline.

The dataset is a function of yours that returns an `orun.Dataset`, or lies in files: arrays (.npz, .npy, .safetensors),
a table (.csv, .parquet) whose columns become inputs and labels, texts that a tokenizer of `transformers` reads, or a
folder of images. Arrays and columns go by their names: `labels` holds the labels, `candidates.x` the candidates' input
`x`, and any other the input of its name, unless `inputs` says which. Where labels are names, `classes` lists them in
the order of the model's scores; `fields` are columns to slice by. Without a dataset, seeded inputs are made up from the
model's signature: indices within their tables, masks that end early; they have no labels.

Metrics against the reference's outputs, on examples and candidates, are exact: `cosine` (with `cosine.mean`, which is
the same, and `cosine.min`), `max_abs`, `relative` to the reference's largest value, `sqnr` in dB, `agreement` of the
top class, `agreement_at_5` of the five top classes, and `kl` (with `kl.max`), the Kullback-Leibler divergence of the
distribution over the classes in nats; these stand along the last axis, or `class_axis`. Of several outputs the worst
counts; those named in `outputs` are also shown one by one, as `cosine.min[logits]`.

Metrics against the dataset's labels are `accuracy`, `accuracy_at_5`, `f1` (macro), `iou` (mean over classes, of
segmentation), `auc` and `average_precision` (of several classes, the mean of one against the rest, which is the mAP of
classification), `ndcg` and `ndcg_at_10` (labels are the relevance of each item, `[n, items]`) and, with candidates,
`recall_at_1`, `recall_at_5`, `recall_at_10` and `mrr` by cosine similarity; they judge the first output, or the first
of `outputs`. Where an example may be of several classes, `auc` and `average_precision` take labels `[n, classes]` of 0
and 1. The mAP of boxes, which COCO and others each define, is for a metric of your own. With a reference or a baseline
metrics are compared on the same examples, with a 95 % interval of the difference. `f1`, `iou`, `auc` and
`average_precision` are no means over examples: their intervals are of resampled examples, and take six of each class.

A metric of your own is `file.py:function` and goes by the function's name. It is called with (outputs, dataset):
`outputs` maps the name of each output to an array `[n, ...]`, or to n arrays where shapes differ; those of candidates
are there as `candidates.<name>`. One that asks for `dataset.labels` where there are none fails the stage: it would
count everything as wrong. It returns one number for each example, which is best: the interval costs nothing then. Or it
returns one for all, such as a BLEU score, which has no interval unless `resamples: 1000` has it called so often on
examples drawn anew, for each model; it may return a number that is not finite for those that it has none for.

With `slices: [label]` everything is measured for the examples of each label by themselves, too, as in
`accuracy[label=3]`, and a gate may ask of each of them: `accuracy: {min: 60%, by: label}`. `f1[label=3]`, `auc` and
`average_precision` by label are those of that class against the rest, of which `f1` is the mean. A slice of another
field has none of the three where its examples are all of one class, and one number of your own needs `resamples` for
slices.

Further references are inputs `reference.NAME`: task metrics are compared with each, and a gate says `against: NAME`.

An output that is not finite fails the stage, and so does one whose shape or type is not the reference's.
Texts of different lengths are batched with those of their own length and never padded, so that what a model answers
for an example does not hang on its neighbours, unless the model itself mixes the examples of a batch, as dynamic
quantization does: `batch: 1` is without that too.

The figures depend on the kernels that the processor has (VNNI, AVX-512, bf16) and not on its clock: the result is
bound to the device. The artifact holds `metrics.json` and `examples.npz`, the value of each example for every model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import Metric
from orun.core.serialization import encode, replace
from orun.core.targets import Target
from orun.errors import StageFailed
from orun.measure.accuracy.names import FIDELITY, TASK, UNITS, named
from orun.stages._data.source import Examples
from orun.stages._graph.missing import require_numbers
from orun.stages.common_parameters import MadeUpDims, ModelTarget, ReferenceTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.datasets import load_dataset, title
from orun.stages.name_checks import require_made_up
from orun.stages.params import Code, Doc, Range

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from orun.measure.accuracy.measurement import Report, Request
    from orun.measure.dataset import Dataset
    from orun.measure.foreign_process import RemoteSession

Known = Literal[
    "cosine", "max_abs", "relative", "sqnr", "agreement", "agreement_at_5", "kl",
    "accuracy", "accuracy_at_5", "f1", "iou", "auc", "average_precision", "ndcg", "ndcg_at_10",
    "recall_at_1", "recall_at_5", "recall_at_10", "mrr",
]  # fmt: skip
MADE_UP = 64  # examples, unless `samples` says how many
SPEC = Spec(
    inputs={
        "model": Port(("onnx", "engine"), "The model to judge."),
        "reference": Port(
            ("onnx", "engine"),
            "The model that it is compared with.",
            optional=True,
            many=True,
            needed_for={"metrics": tuple(FIDELITY)},
        ),
    },
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "numpy"),
    extra="cpu",
    stage_class="device",
    cpus=2,
    preload=("numpy", "onnxruntime"),
    baseline=True,
    out_of_process=True,
    units=UNITS,
)


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of `measure/accuracy`."""

    dataset: Annotated[
        Examples | None,
        Doc("The examples: a function that returns an `orun.Dataset`, or files; made up when left out."),
    ] = None
    metrics: Annotated[list[Known | Code], Doc("What to measure: names, and functions of your own.")]
    dims: MadeUpDims = field(default_factory=dict)
    target: ModelTarget = None
    reference_target: ReferenceTarget = None
    samples: Annotated[int | None, Doc("Use only the first so many examples."), Range(low=1)] = None
    batch: Annotated[int, Doc("Examples of equal shape that are fed together at most."), Range(low=1)] = 1
    outputs: Annotated[list[str], Doc("Outputs of the model to look at; all when left out.")] = field(
        default_factory=list
    )
    class_axis: Annotated[
        int | None,
        Doc(
            "Axis of an output along which the scores of the classes stand: 1 of a segmentation's "
            "`[n, classes, height, width]`; the last when left out."
        ),
        Range(low=1),
    ] = None
    better: Annotated[
        dict[str, Literal["higher", "lower"]], Doc("Which way metrics of your own improve; `higher` when left out.")
    ] = field(default_factory=dict)
    slices: Annotated[
        list[str],
        Doc("Fields of the dataset by whose values everything is measured, too: `label`, and those in its `fields`."),
    ] = field(default_factory=list)
    resamples: Annotated[
        int | None,
        Doc("How often a metric of your own that is one number of all examples is called on examples drawn anew."),
        Range(low=200),
    ] = None


def metrics(params: Params) -> Collection[str]:
    """Return names of the metrics that these parameters yield."""
    names: list[str] = []
    for metric in params.metrics:
        yielded = FIDELITY.get(metric, (_metric_name(metric),))
        names += yielded
        if metric in FIDELITY and len(params.outputs) > 1:
            names += [named(name, output) for name in yielded for output in params.outputs]
    return names


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Run the models over the dataset, and leave the metrics and the value of each example."""
    request = _request(context, params)
    if params.reference_target is not None and not any(role.startswith("reference") for role in context.inputs):
        raise StageFailed(
            context.stage,
            "`reference_target` says where references run, and none is connected",
            hint="connect one: needs: {model: ..., reference: ...}; or leave `reference_target` out",
        )
    dataset = _dataset(context, params)
    with ExitStack() as stack:
        sessions = _sessions(context, stack)
        report = judge(sessions, dataset, request, context.progress)
        _note_warnings(context, request, dataset, sessions)
    _write(context, report)
    return report.metrics


def judge(
    sessions: Mapping[str, InferenceSession | RemoteSession],
    dataset: Dataset,
    request: Request,
    progress: Callable[[int, int, str], None],
) -> Report:
    """Measure the accuracy of models; other kinds call it for their candidates."""
    from orun.measure.accuracy.measurement import evaluate

    return evaluate(sessions, dataset, request, progress)


def _note_warnings(
    context: Context, request: Request, dataset: Dataset, sessions: Mapping[str, InferenceSession | RemoteSession]
) -> None:
    from orun.measure.dataset_warnings import warn_of_duplicates, warn_of_unused_inputs

    input_names = {role: [value.name for value in session.get_inputs()] for role, session in sessions.items()}
    if not request.functions:  # which may read what no model takes
        for note in warn_of_unused_inputs(input_names, dataset):
            context.note(note)
    if (request.task or request.functions) and (note := warn_of_duplicates(dataset)):
        context.note(note)


def _dataset(context: Context, params: Params) -> Dataset:
    from orun.stages._data.synthetic import make_examples

    if params.dataset is None:
        return make_examples(context.model(), params.samples or MADE_UP, params.dims, context.seed)
    require_made_up(context, params.dims, "dataset")
    dataset = load_dataset(context, params.dataset)
    if params.samples is not None:
        dataset = dataset.take(params.samples)
    require_numbers(context, dataset)
    return dataset


def _sessions(context: Context, stack: ExitStack) -> dict[str, InferenceSession | RemoteSession]:
    """Return the model of each role where it is to run: in this process, or in one of another environment."""
    from orun.measure.foreign_process import RemoteSession
    from orun.measure.session import open_session

    sessions: dict[str, InferenceSession | RemoteSession] = {}
    for role in context.inputs:
        target = _target(context, role)
        if target.interpreter:
            sessions[role] = stack.enter_context(RemoteSession(context.model(role), target))
        else:
            sessions[role] = open_session(context.model(role), target)
    return sessions


def _target(context: Context, role: str) -> Target:
    """The target of a role, but with threads that sleep while another model runs, unless it says how they wait."""
    target = context.target or Target("cpu")
    if role.startswith("reference"):
        target = context.extra_targets.get("reference_target", target)
    return replace(target, session={"session.intra_op.allow_spinning": False, **target.session})


def _metric_name(metric: str) -> str:
    return metric.rpartition(":")[2]


def _request(context: Context, params: Params) -> Request:
    from orun.measure.accuracy.measurement import Request

    if not params.metrics:
        raise StageFailed(
            context.stage, "`metrics` is empty", hint="name what to measure: orun stages measure/accuracy"
        )
    names = [_metric_name(metric) for metric in params.metrics]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise StageFailed(
            context.stage, f"metrics: {', '.join(twice)} is there twice", hint="rename the function, or drop one"
        )
    built_in = tuple(name for name in params.metrics if name in FIDELITY or name in TASK)
    functions = {
        _metric_name(code): context.load(Code(code), ("outputs", "dataset"))
        for code in params.metrics
        if code not in built_in
    }
    unknown = [name for name in params.better if name not in functions]
    if unknown:
        raise StageFailed(context.stage, f"better: {', '.join(unknown)} is no metric of your own")
    return Request(
        stage=context.stage,
        metrics=built_in,
        functions=functions,
        better=params.better,
        outputs=tuple(params.outputs),
        batch=params.batch,
        seed=context.seed,
        slices=tuple(params.slices),
        resamples=params.resamples,
        source="" if params.dataset is None else title(params.dataset),
        class_axis=-1 if params.class_axis is None else params.class_axis,
    )


def _write(context: Context, report: Report) -> None:
    import json
    from zipfile import ZipFile, ZipInfo

    import numpy as np

    (context.output / "metrics.json").write_text(json.dumps(encode(report.metrics), indent=2) + "\n", "utf-8")
    with ZipFile(context.output / "examples.npz", "w") as archive:  # numpy's format; equal values give equal bytes
        for name, values in sorted(report.examples.items()):
            with archive.open(ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, values)
    for name, metric in report.metrics.items():
        context.log.info("%s: %.6g", name, metric.value)
