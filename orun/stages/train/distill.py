"""Train a small PyTorch module, the student, to answer as a large one does, the teacher.

`student` and `teacher` name functions of yours that return a module. The weights of the teacher come from its function,
or from a stage of your own that trains: `needs: {weights: train}`. The result holds the student's weights. Pass it to
`convert/torch` with the function of the student: `needs: distill`, `with: {model: file.py:student, ...}`.

The loss is a mean of these parts:

- soft: the distance from the teacher's first output. For classes it is the Kullback-Leibler divergence at `temperature`
  (Hinton 2015), for values the mean squared error.
- hard: the distance from the labels of the dataset, with the weight `hard`.
- features: with `features`, the distance between values inside of both modules, with the weight `feature_weight`. Where
  they differ in the size of one axis, a linear map is learned with the student (FitNets, Romero 2015).

Equal seeds give equal weights on equal processors. Put `measure/accuracy` after the conversion, with the teacher's
model as reference and examples that the student has not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT
from orun.stages.contract import Context
from orun.stages.params import Code, Doc, Range, Ratio
from orun.stages.train._settings import (
    Answers,
    BatchSize,
    Data,
    Device,
    Epochs,
    InputNames,
    LearningRate,
    Schedule,
    Threads,
    make_spec,
)

if TYPE_CHECKING:
    import torch

    from orun.measure.dataset import Batch, Dataset
    from orun.stages._torch.export import Bound
    from orun.stages.train._loop import Loss
    from orun.stages.train._losses import Projections


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of `train/distill`."""

    student: Annotated[Code, Doc("Function that returns the module to train.")]
    teacher: Annotated[Code, Doc("Function that returns the module to learn from.")]
    dataset: Data
    inputs: InputNames = field(default_factory=list)
    answers: Answers = "classes"
    temperature: Annotated[
        float, Doc("How far scores of classes are softened, so that small ones count."), Range(0.1)
    ] = 4.0
    hard: Annotated[
        Ratio, Doc("Weight of the labels; the teacher has the rest. With 0 no labels are needed."), Range(0, 1)
    ] = Ratio(0.1)
    features: Annotated[
        dict[str, str], Doc("Submodules of the student, each with that of the teacher whose output it learns.")
    ] = field(default_factory=dict)
    feature_weight: Annotated[float, Doc("Weight of the features, beside 1 for labels and teacher."), Range(0)] = 1.0
    epochs: Epochs = 20
    batch: BatchSize = 64
    learning_rate: LearningRate = 1e-3
    device: Device = "cpu"
    threads: Threads = 1


SPEC = make_spec("teacher", {"teacher_parameters": COUNT})


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the student's weights."""
    from orun.stages._torch.source import find_trained_weights, load_module
    from orun.stages.datasets import load_dataset
    from orun.stages.train._loop import attach, count, train, training

    dataset = load_dataset(context, params.dataset, params.inputs)
    schedule = Schedule(params.epochs, params.batch, params.learning_rate, params.device, params.threads)
    with training(context, schedule):
        modules = (
            load_module(context, params.student),
            load_module(context, params.teacher, find_trained_weights(context)),
        )
        student, teacher = (attach(module, dataset, params.inputs, params.device) for module in modules)
        projections = _compare(context, params, dataset, student, teacher)
        loss = _make_loss(context, params, dataset, teacher, projections)
        extra_parameters = projections.parameters() if projections else ()
        metrics = train(context, student, dataset, loss, schedule, extra_parameters)
    return {**metrics, "teacher_parameters": count(teacher.module)}


def _compare(context: Context, params: Params, dataset: Dataset, student: Bound, teacher: Bound) -> Projections | None:
    """Run both modules once; refuse answers of different shapes; return the maps between features, if there are any."""
    import torch

    from orun.measure.dataset import iter_batches
    from orun.stages.train._loop import run
    from orun.stages.train._losses import Features, Projections

    of_student = Features(context, "student", student.module, list(params.features))
    of_teacher = Features(context, "teacher", teacher.module, list(params.features.values()))
    batch = next(iter_batches(dataset.inputs, min(params.batch, 2)))
    with torch.no_grad():
        scores, right = (run(bound, batch, params.device)[0] for bound in (student, teacher))
    if scores.shape != right.shape:
        raise context.failed(
            "the student's first output has another shape than the teacher's",
            why=f"for {len(batch.examples)} examples they are {list(scores.shape)} and {list(right.shape)}",
        )
    return Projections(context, params.features, of_student, of_teacher).to(params.device) if params.features else None


def _make_loss(
    context: Context, params: Params, dataset: Dataset, teacher: Bound, projections: Projections | None
) -> Loss:
    import torch

    from orun.stages.datasets import format_title
    from orun.stages.train._loop import run
    from orun.stages.train._losses import compute_hard_loss, compute_soft_loss, require_labels

    classes = params.answers == "classes"
    labels = (
        require_labels(context, dataset.labels, format_title(params.dataset), classes=classes) if params.hard else None
    )

    def compute_loss(outputs: list[torch.Tensor], batch: Batch) -> torch.Tensor:
        with torch.no_grad():
            right = run(teacher, batch, params.device)[0]
        value = (1 - params.hard) * compute_soft_loss(outputs[0], right, params.temperature, classes=classes)
        if labels is not None:
            chosen = labels[batch.examples].to(params.device)
            value = value + params.hard * compute_hard_loss(context, outputs[0], chosen, classes=classes)
        return value if projections is None else value + params.feature_weight * projections.compute_loss()

    return compute_loss
