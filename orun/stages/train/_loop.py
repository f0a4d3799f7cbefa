"""Training of a module on a dataset, the same in every process with the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from orun.environment.env_vars import set_variable
from orun.measure.dataset import Batch, Dataset, group, make_batch
from orun.stages._graph.feeds import Input
from orun.stages._torch.export import Bound, bind, flatten
from orun.stages._torch.quantized import find_fakes, stop_training
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.train._settings import WEIGHTS, Schedule

Loss = Callable[[list[torch.Tensor], Batch], torch.Tensor]
"""A function of the module's outputs and the batch."""


def attach(module: torch.nn.Module, dataset: Dataset, names: Sequence[str], device: str) -> Bound:
    """Move a module to its device and match the inputs of a dataset with its `forward`; it is in evaluation mode then.

    Raises:
        UsageError: when `forward` does not take them.
    """
    firsts = {name: np.asarray(dataset.inputs[name][0]) for name in names or dataset.inputs}
    inputs = [
        Input(name, value.dtype.name, ("batch", *(f"{name}_{axis}" for axis in range(value.ndim))))
        for name, value in firsts.items()
    ]
    return bind(module.to(device), inputs)


def run(bound: Bound, batch: Batch, device: str) -> list[torch.Tensor]:
    """Return the outputs of a module for a batch."""
    positional, named = bound.build_arguments(batch.feed)
    outputs = bound.module(
        *(tensor.to(device) for tensor in positional), **{name: tensor.to(device) for name, tensor in named.items()}
    )
    return list(flatten(outputs))


def train(
    context: Context,
    bound: Bound,
    dataset: Dataset,
    loss: Loss,
    schedule: Schedule,
    extra_parameters: Iterable[torch.nn.Parameter] = (),
) -> Mapping[str, float]:
    """Train a module in place, write its weights for `convert/torch`, and return the metrics.

    Raises:
        StageFailed: when PyTorch fails, or the loss is not finite.
    """
    numbers = np.random.default_rng(context.seed)
    learned = [item for item in (*bound.module.parameters(), *extra_parameters) if item.requires_grad]
    optimizer = torch.optim.AdamW(learned, schedule.learning_rate)
    steps = schedule.epochs * len(_shuffle(dataset, schedule.batch, np.random.default_rng(0)))
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    bound.module.train()
    for _, fake in find_fakes(bound.module):
        fake.enable_observer()
    mean = math.nan
    for epoch in range(schedule.epochs):
        context.progress(epoch, schedule.epochs, "epochs trained")
        losses = []
        for examples in _shuffle(dataset, schedule.batch, numbers):
            batch = make_batch(dataset.inputs, examples)
            optimizer.zero_grad()
            value = loss(run(bound, batch, schedule.device), batch)
            value.backward()
            optimizer.step()
            rates.step()
            losses.append(float(value.detach()))
        mean = float(np.mean(losses))
        context.log.info("epoch %d: loss %.6g", epoch + 1, mean)
        if not math.isfinite(mean):
            raise context.failed(
                f"the loss is {mean} after epoch {epoch + 1}",
                hint="lower `learning_rate`, and see that inputs are scaled as the module expects",
            )
    stop_training(bound.module)
    weights = bound.module.state_dict().items()
    torch.save(
        {name: value.cpu() if torch.is_tensor(value) else value for name, value in weights}, context.output / WEIGHTS
    )
    return {"loss": mean, "parameters": count(bound.module)}


def _shuffle(dataset: Dataset, size: int, numbers: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the examples of each batch, in a random order.

    A batch of one example is left out if there are others: a batch normalization cannot learn from it.
    """
    shuffled = group(dataset.inputs, size, numbers.permutation(len(dataset)))
    kept = [examples for examples in shuffled if len(examples) > 1] or shuffled
    return [kept[place] for place in numbers.permutation(len(kept))]


@contextmanager
def training(context: Context, schedule: Schedule) -> Iterator[None]:
    """Let PyTorch compute the same in every process, on so many threads, and turn its errors into failures.

    Raises:
        StageFailed: when PyTorch fails, or there is no such device.
    """
    if schedule.device == "cuda" and not torch.cuda.is_available():
        raise context.failed(
            "`device: cuda` needs an NVIDIA GPU that PyTorch sees",
            hint="`orun doctor` lists the devices; `device: cpu` trains on the processor",
        )
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    hint = "see that `forward` takes the dataset's inputs as they are; a stage of your own can train in other ways"
    try:
        torch.set_num_threads(schedule.threads)
        torch.use_deterministic_algorithms(mode=True)
        torch.manual_seed(context.seed)
        with (
            set_variable("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
            warnings_to(context.log),
            failing(context, "PyTorch cannot train the module", hint),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(mode=strict)


def count(module: torch.nn.Module) -> int:
    """Return how many numbers a module has learned."""
    return sum(parameter.numel() for parameter in module.parameters())
