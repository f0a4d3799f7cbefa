"""Measure a model's accuracy on a dataset, against a reference model and the accepted baseline.

The dataset is a function of yours that returns an `orun.Dataset`, or files: arrays (.npz, .npy, .safetensors), a table
(.csv, .tsv, .jsonl, .parquet) whose columns become inputs and labels, texts for a tokenizer of `transformers`, or a
folder of images. The array or column `labels` holds the labels, `candidates.x` the candidates' input `x`, and any other
the input of its name, unless `inputs` says otherwise. If labels are names or class folders, `classes` lists them in the
order of the model's scores. `fields` are columns to slice by. Without a dataset, seeded inputs without labels are made
up from the model's signature: indices within their tables, masks that end early. Metrics against labels and `slices`
need a dataset.

Metrics against the outputs of the reference, on examples and candidates. They are exact.

| metric | meaning |
|---|---|
| `cosine`, `cosine.mean`, `cosine.min` | cosine similarity of outputs of several numbers; `cosine` is the mean |
| `max_abs`, `relative` | largest difference, absolute and relative to the reference's largest value |
| `sqnr` | signal-to-quantization-noise ratio in dB |
| `agreement`, `agreement_at_5` | share of equal top classes, and of the five top classes |
| `kl`, `kl.max` | Kullback-Leibler divergence of the distribution over the classes, in nats |

If an example has several positions, such as the tokens of a text, its `agreement` and `kl` are means over these. Both
metrics are the mean over examples, and `kl.max` is the worst example's, not that of the worst token.

Classes lie along the last axis, or `class_axis`. With several outputs the worst one counts. Outputs of integers and
flags are compared by `agreement` alone; a note names outputs that no metric judges. Outputs named in `outputs` are
also shown one by one, as `cosine.min[logits]`.

Metrics against the labels of the dataset. They judge the first output, or the first of `outputs`.

| metric | meaning |
|---|---|
| `accuracy`, `accuracy_at_5` | share of right top classes, and of labels among the five top classes |
| `precision`, `recall`, `f1` | macro averages, as in scikit-learn: means over all classes |
| `iou` | mean IoU of a segmentation |
| `auc` | area under the ROC curve: mean over classes, each against the rest; of two classes that of class 1 |
| `average_precision` | area under the precision-recall curve, averaged as `auc`: mAP of classification |
| `brier`, `log_loss` | errors of the predicted probabilities, as in scikit-learn |
| `ece` | expected calibration error of the top class: 15 bins of equal width (Guo et al. 2017) |
| `mae`, `rmse`, `r2` | errors of predicted numbers, and the share of the labels' variance that they explain |
| `ndcg`, `ndcg_at_10` | quality of a ranking; labels are the relevance of each item, `[n, items]` |
| `recall_at_1`, `recall_at_5`, `recall_at_10`, `mrr` | retrieval among `candidates` by cosine similarity |
| `map`, `map_50`, `map_75` | COCO's mean average precision of boxes: at IoU 0.50 to 0.95, at 0.50, at 0.75 |
| `wer`, `cer` | word and character errors over the length of all labels, as jiwer counts them |

`auc`, `average_precision`, `brier`, `log_loss` and `ece` judge probabilities. Logits of several classes pass a softmax
first, and probabilities stay as they are. Scores that are neither count as logits, such as the margins of an SVM
(`decision_function`), which no value tells from them: `brier`, `log_loss` and `ece` then say nothing. Calibrate such a
model first, as `CalibratedClassifierCV` does, or measure `auc`.

`mae`, `rmse` and `r2` take a predicted number for each label, of a regression or of a forecast `[n, steps]`. `rmse` is
the root of the mean over all positions, and `r2` the mean over positions, as scikit-learn's. Against the original, gate
`rmse: {max_increase: 1%}`. Outputs and labels have the same scale: if the model predicts scaled values, let
`postprocess` scale them back. A note tells if the mean of all labels is better than the reference, or than the model
without one.

Classes need a score each, and a single number has a sign but no angle: compare it by `sqnr`, not by `cosine` or
`agreement`. Of a single score of class 1, only `auc`, `average_precision`, `brier`, `log_loss` and
`ece` can be measured, and a `postprocess` can make classes of it for the others.

If an example may belong to several classes, `auc` and `average_precision` take labels `[n, classes]` of 0 and 1. Then
scores are ranked without a softmax. With a reference or a baseline, metrics are compared on the same examples, with a
95 % interval of the difference. `precision`, `recall`, `f1`, `iou`, `auc`, `average_precision` and `map` are no means
over examples. Their intervals come from resampled examples and need six examples of each class, and those of
`precision` six predictions. `wer` and `cer` are resampled, too. `ece` has no interval that holds: gate `brier` or
`log_loss` against a baseline.

`detections` names the outputs that hold boxes. The label of an image is a dict, `{"xyxy": boxes, "classes": numbers}`,
with `xywh` or `cxcywh` for other boxes, and `crowd` where COCO has crowds. Boxes of model and labels are on the same
scale. Of each class in an image the 100 boxes with the highest scores count. A note names a precision below 5 % of the
reference, or of the model without one: a comparison with it tells little.

For `wer` and `cer`, the output and the labels are texts. `text` names a tokenizer for an output that holds none.
Nothing is normalized unless `text` says so. A note names an error rate of 80 % or more of the reference, or of the
model without one: a comparison with it tells little.

`postprocess` is a function of yours, called as a metric of your own is. It makes what metrics against labels judge: an
array or a list with a value for each example, or several by name, as `{"boxes": ..., "scores": ..., "classes": ...}`.

A metric of your own is `file.py:function`; its name is that of the function. It is called with (outputs, dataset):
`outputs` maps the name of each output to an array `[n, ...]`, or to n arrays if shapes differ; outputs for candidates
are named `candidates.<name>`. It should return one number for each example. It may instead return one number for all
examples, such as a BLEU score. That has no interval unless `resamples: 1000` lets orun call it so often on resampled
examples. Either may be NaN where it is not defined: such examples and slices are left out, and a note says how many.
NaN for all examples fails the stage, and so does a function that reads `dataset.labels` of a dataset without labels.

With `slices: [label]` everything is also measured for the examples of each label, as in `accuracy[label=3]`. A gate can
apply to each slice: `accuracy: {min: 60%, by: label}`. `recall[label=3]` and the other metrics with classes are by
label those of that class against the rest: a gate of `precision[label=fraud]` judges the class `fraud` alone. In a
slice of another field, all but `map` need examples of several classes. One number of your own needs `resamples` for
slices.

The reference can be the model that a convert stage takes, in its own framework: `reference: export` with
`reference_runtime: torch` compares with the outputs of PyTorch. It runs in a process of its own.

Further references are inputs `reference.NAME`. Task metrics are compared with each; a gate names it by `against: NAME`.

An output that is not finite fails the stage, and so does an output whose shape or type differs from the reference's.
Texts are batched by length and never padded, so that a result does not depend on the other examples of a batch. If the
dataset pads them (`text: {pad: true}`), metrics against the reference count the padding of an output with scores for
each position, and a note says so. If the model itself mixes the examples of a batch, as dynamic quantization does,
`batch: 1` prevents that.

The figures depend on the kernels of the processor (VNNI, AVX-512, bf16), not on its clock, so the result is bound to
the device. The artifact holds `metrics.json`, and `examples.npz` with the value of each example for every model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import Metric
from orun.core.serialization import encode
from orun.measure.accuracy.names import FIDELITY, QUANTITIES, READ, TASK, name_metric
from orun.stages._data.source import Examples
from orun.stages._graph.missing import require_numbers
from orun.stages.common_parameters import MadeUpDims, ModelTarget, ReferenceTarget
from orun.stages.contract import Context, Needed, Port, Spec
from orun.stages.datasets import find_origin, load_dataset, note_misfits
from orun.stages.measure._outputs import (
    Detections,
    Text,
    list_libraries,
    make_decoder,
    make_normalizer,
    require_parameters,
)
from orun.stages.measure._sessions import open_sessions
from orun.stages.name_checks import require_made_up
from orun.stages.params import Code, Doc, Range
from orun.stages.reference_models import ReferenceRuntime

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from orun.measure.accuracy.request import Report, Request
    from orun.measure.dataset import Dataset
    from orun.measure.foreign_process import RemoteSession

Known = Literal[
    "cosine", "max_abs", "relative", "sqnr", "agreement", "agreement_at_5", "kl",
    "accuracy", "accuracy_at_5", "precision", "recall", "f1", "iou", "auc", "average_precision",
    "brier", "log_loss", "ece",
    "mae", "rmse", "r2",
    "ndcg", "ndcg_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "mrr",
    "map", "map_50", "map_75", "wer", "cer",
]  # fmt: skip
MADE_UP = 64  # made-up examples, unless `samples` is set
MADE_UP_NOTE = "the examples are made up, not data: name some of yours, `dataset: data.py:function`"
SPEC = Spec(
    inputs={
        "model": Port(("onnx", "engine"), "The model to measure."),
        "reference": Port(
            ("onnx", "engine"),
            "The model to compare with.",
            optional=True,
            many=True,
            needed_for={"metrics": tuple(FIDELITY)},
            runtime="reference_runtime",
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
    needed={
        "dataset": Needed(
            {"metrics": (*TASK, *READ), "slices": ()},
            "examples with labels or fields, as of a function or a table; made-up ones have neither",
        )
    },
    metrics=QUANTITIES,
)


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of `measure/accuracy`."""

    dataset: Annotated[
        Examples | None,
        Doc("Examples: a function that returns an `orun.Dataset`, or files; made up when left out."),
    ] = None
    metrics: Annotated[list[Known | Code], Doc("Metrics to measure: names, and functions of your own.")]
    dims: MadeUpDims = field(default_factory=dict)
    target: ModelTarget = None
    reference_target: ReferenceTarget = None
    reference_runtime: ReferenceRuntime = "onnxruntime"
    samples: Annotated[int | None, Doc("Use only so many examples, spread evenly over the data."), Range(low=1)] = None
    batch: Annotated[int, Doc("Largest number of examples of equal shape to feed together."), Range(low=1)] = 1
    outputs: Annotated[list[str], Doc("Outputs of the model to measure; all when left out.")] = field(
        default_factory=list
    )
    class_axis: Annotated[
        int | None,
        Doc(
            "Axis of an output along which the scores of the classes lie: 1 for a segmentation, "
            "`[n, classes, height, width]`; the last when left out."
        ),
        Range(low=1),
    ] = None
    postprocess: Annotated[
        Code | None,
        Doc(
            "Function of (outputs, dataset), as a metric of your own, that returns what metrics against labels judge "
            "instead of the outputs: an array or list of n values, or several by name."
        ),
    ] = None
    detections: Annotated[Detections | None, Doc("For `map`: outputs that hold the detected boxes.")] = None
    text: Annotated[Text | None, Doc("For `wer` and `cer`: how outputs become texts, and their normalization.")] = None
    better: Annotated[
        dict[str, Literal["higher", "lower"]],
        Doc("Direction in which metrics of your own improve; `higher` when left out."),
    ] = field(default_factory=dict)
    slices: Annotated[
        list[str],
        Doc("Fields of the dataset to slice by, `label` for the labels: everything is also measured for each value."),
    ] = field(default_factory=list)
    resamples: Annotated[
        int | None,
        Doc("How often to call a metric of your own that returns one number for all examples, on resampled examples."),
        Range(low=200),
    ] = None


def metrics(params: Params) -> Collection[str]:
    """Return names of the metrics that these parameters yield."""
    names: list[str] = []
    for metric in params.metrics:
        yielded = FIDELITY.get(metric, (_strip_output(metric),))
        names += yielded
        if metric in FIDELITY and len(params.outputs) > 1:
            names += [name_metric(name, output) for name in yielded for output in params.outputs]
    return names


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that metrics need."""
    return list_libraries(params.metrics, params.text)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Run the models over the dataset; write the metrics and the value of each example."""
    request = _build_request(context, params)
    if params.reference_target is not None and not any(role.startswith("reference") for role in context.inputs):
        raise context.failed(
            "`reference_target` is set, but no reference is connected",
            hint="connect one: needs: {model: ..., reference: ...}; or leave `reference_target` out",
        )
    dataset = _load_dataset(context, params)
    with ExitStack() as stack:
        sessions = open_sessions(context, stack)
        report = judge(sessions, dataset, request, context.progress)
        _note_warnings(context, request, dataset, sessions)
    note_misfits(context, request, params.dataset, dataset)
    for output, metric in report.uncompared.items():
        context.note(f"no metric judges the output {output!r}: add `{metric}`, which compares it with the reference's")
    for warning in report.warnings:
        context.note(warning)
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
    if not (request.functions or request.postprocess):  # they may read inputs that no model has
        origin = request.origin
        has_columns = bool(origin.title) and not (origin.is_function or origin.is_folder or origin.tokenizer)
        for note in warn_of_unused_inputs(input_names, dataset, has_columns=has_columns):
            context.note(note)
    if (request.task or request.functions) and (note := warn_of_duplicates(dataset)):
        context.note(note)


def _load_dataset(context: Context, params: Params) -> Dataset:
    from orun.stages._data.synthetic import make_examples

    if params.dataset is None:
        if not context.sources and params.reference_target is None:  # no comparison of runtimes
            context.note(MADE_UP_NOTE)
        return make_examples(context.model(), params.samples or MADE_UP, params.dims, context.seed)
    require_made_up(context, params.dims, "dataset")
    dataset = load_dataset(context, params.dataset)
    if params.samples is not None:
        dataset = dataset.spread(params.samples)
    require_numbers(context, dataset)
    return dataset


def _strip_output(metric: str) -> str:
    return metric.rpartition(":")[2]


def _build_request(context: Context, params: Params) -> Request:
    from orun.measure.accuracy.request import Request
    from orun.measure.dataset_origin import Origin
    from orun.measure.metrics.boxes import BoxOutputs
    from orun.stages._data.packages import need
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import find_highest

    if not params.metrics:
        raise context.failed("`metrics` is empty", hint="name metrics: orun stages measure/accuracy")
    names = [_strip_output(metric) for metric in params.metrics]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise context.failed(f"metrics: {', '.join(twice)} is named twice", hint="rename the function, or drop one")
    require_parameters(context, params.metrics, params.detections, params.text)
    for library, purpose in list_libraries(params.metrics, params.text).items():
        need(library, purpose)
    built_in = tuple(name for name in params.metrics if name in (*FIDELITY, *TASK, *READ))
    functions = {
        _strip_output(code): context.load(Code(code), ("outputs", "dataset"))
        for code in params.metrics
        if code not in built_in
    }
    unknown = [name for name in params.better if name not in functions]
    if unknown:
        raise context.failed(f"better: {', '.join(unknown)} is not a metric of your own")
    return Request(
        metrics=built_in,
        functions=functions,
        better=params.better,
        outputs=tuple(params.outputs),
        batch=params.batch,
        seed=context.seed,
        slices=tuple(params.slices),
        resamples=params.resamples,
        origin=Origin() if params.dataset is None else find_origin(context.root, params.dataset),
        highest=find_highest(load_graph(context.model())),
        class_axis=-1 if params.class_axis is None else params.class_axis,
        postprocess=context.load(params.postprocess, ("outputs", "dataset")) if params.postprocess else None,
        boxes=BoxOutputs(**asdict(params.detections)) if params.detections else None,
        decode=make_decoder(context, params.text),
        normalize=make_normalizer(context, params.text.normalize if params.text else ()),
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
