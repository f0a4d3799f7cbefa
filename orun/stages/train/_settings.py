"""Parameters and declaration that the kinds of this family share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from orun.core.metrics import LOWER, Quantity
from orun.stages._data.source import Examples
from orun.stages.contract import Port, Spec
from orun.stages.params import Doc, Range

Data = Annotated[
    Examples,
    Doc("Examples to learn from, with labels: a function that returns an `orun.Dataset`, or files. Judge by others."),
]
InputNames = Annotated[
    list[str], Doc("Inputs of the dataset in the order in which `forward` takes them; all of them when empty.")
]
Answers = Annotated[
    Literal["classes", "values"],
    Doc("What the first output is: scores of classes along the second axis, or values such as an embedding."),
]
Epochs = Annotated[int, Doc("How often every example is seen."), Range(1)]
BatchSize = Annotated[int, Doc("Examples of a step; examples of one batch have equal shapes."), Range(1)]
LearningRate = Annotated[
    float, Doc("Step of the optimizer, AdamW, at first; it falls to zero along a cosine."), Range(0)
]
Device = Annotated[Literal["cpu", "cuda"], Doc("Where PyTorch trains.")]
Threads = Annotated[
    int, Doc("Threads of the CPU. Results are equal for equal numbers of threads on equal processors."), Range(1)
]

WEIGHTS = "weights.pt"  # name of the file in the artifact


def make_spec(module: str, metrics: Mapping[str, Quantity]) -> Spec:
    """Return the declaration of a kind that trains."""
    weights = f"Weights of the {module}, from a stage that trains: a .pt, .pth or .safetensors file."
    return Spec(
        inputs={"weights": Port(("files",), weights, optional=True)},
        output="files",
        tools=("torch", "numpy"),
        extra="torch",
        preload=("torch",),
        calibration_params=("dataset",),
        metrics={"loss": Quantity("", "lower"), "parameters": LOWER, **metrics},
    )


@dataclass(frozen=True)
class Schedule:
    """Epochs, batches, steps and place of a training.

    Attributes:
        epochs, batch, learning_rate, device, threads: see the parameters of these names.
    """

    epochs: int
    batch: int
    learning_rate: float
    device: str
    threads: int
