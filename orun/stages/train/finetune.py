"""Train a PyTorch module further, to win back accuracy that pruning or rounding has cost.

`model` names a function of yours that returns the module. Its weights come from that function, or from a stage that
trained it: `needs: train`, or `needs: distill`. `prepare` names a function of yours that takes the module with its
weights and returns the module to train:

- for pruning: `torch.nn.utils.prune` masks the smallest weights, and training leaves them at zero;
- for quantization: `prepare_qat_fx` of `torch.ao`, or modules of fake quantization placed by hand. The module then
  learns while it rounds (quantization-aware training); `quantize/qat` makes its integers.

The result holds the weights of the module that was trained. Pass it to `convert/torch` with a function that returns
such a module: `prepare` of what `model` returns. The loss is cross entropy for classes and mean squared error for
values. Equal seeds give equal weights on equal processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.stages.contract import Context
from orun.stages.params import Code, Doc
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

    from orun.measure.dataset import Batch


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of `train/finetune`."""

    model: Annotated[Code, Doc("Function that returns the module.")]
    prepare: Annotated[
        Code | None, Doc("Function of that module, with its weights, that returns the module to train.")
    ] = None
    dataset: Data
    inputs: InputNames = field(default_factory=list)
    answers: Answers = "classes"
    epochs: Epochs = 4
    batch: BatchSize = 64
    learning_rate: LearningRate = 1e-4
    device: Device = "cpu"
    threads: Threads = 1


SPEC = make_spec("module", {})


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the weights of the trained module."""
    from orun.stages._torch.source import find_trained_weights, load_module
    from orun.stages.datasets import format_title, load_dataset
    from orun.stages.train._loop import attach, train, training
    from orun.stages.train._losses import compute_hard_loss, require_labels

    dataset = load_dataset(context, params.dataset, params.inputs)
    classes = params.answers == "classes"
    labels = require_labels(context, dataset.labels, format_title(params.dataset), classes=classes)
    schedule = Schedule(params.epochs, params.batch, params.learning_rate, params.device, params.threads)

    def compute_loss(outputs: list[torch.Tensor], batch: Batch) -> torch.Tensor:
        return compute_hard_loss(context, outputs[0], labels[batch.examples].to(params.device), classes=classes)

    with training(context, schedule):
        module = _prepare(context, params, load_module(context, params.model, find_trained_weights(context)))
        bound = attach(module, dataset, params.inputs, params.device)
        return train(context, bound, dataset, compute_loss, schedule)


def _prepare(context: Context, params: Params, module: torch.nn.Module) -> torch.nn.Module:
    """Return what the user's function makes of the module; the module itself without a function."""
    import torch

    if params.prepare is None:
        return module
    prepared = context.load(params.prepare, ("module",))(module)
    if not isinstance(prepared, torch.nn.Module):
        raise context.failed(
            f"{params.prepare} must return a torch.nn.Module",
            why=f"it returned a {type(prepared).__name__}",
        )
    return prepared
