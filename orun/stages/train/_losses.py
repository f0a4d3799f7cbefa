"""Losses: against labels, against the answers of a teacher, and against values inside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from orun.stages.contract import Context

Array = NDArray[Any]


def require_labels(context: Context, labels: Array | None, parameter: str, *, classes: bool) -> torch.Tensor:
    """Return the labels of a dataset as a tensor; refuse a dataset without, and classes that are not whole numbers."""
    if labels is None:
        raise context.failed(
            f"{parameter} has no labels to learn from",
            hint="orun.Dataset(inputs, labels)",
        )
    if classes and labels.dtype.kind not in "iub":
        raise context.failed(
            f"the labels of {parameter} are {labels.dtype}, not the numbers of classes",
            hint="`answers: values` learns values instead of classes",
        )
    return torch.from_numpy(labels.astype(np.int64 if classes else np.float32))


def compute_hard_loss(context: Context, scores: torch.Tensor, labels: torch.Tensor, *, classes: bool) -> torch.Tensor:
    """Return the cross entropy of scores `[batch, classes, ...]`, or the mean squared error of values.

    Raises:
        StageFailed: when values have another shape than their labels; labels `[batch]` fit values `[batch, 1]`.
    """
    if classes:
        return functional.cross_entropy(scores, labels)
    if scores.shape == (*labels.shape, 1):
        labels = labels.unsqueeze(-1)
    if scores.shape != labels.shape:
        raise context.failed(
            "the module's first output has another shape than the labels",
            why=f"for {len(labels)} examples they are {list(scores.shape)} and {list(labels.shape)}",
            hint="with `answers: values` a module answers a number for each number of a label",
        )
    return functional.mse_loss(scores, labels)


def compute_soft_loss(scores: torch.Tensor, right: torch.Tensor, temperature: float, *, classes: bool) -> torch.Tensor:
    """Return the distance from the teacher's answer.

    Hinton et al., "Distilling the Knowledge in a Neural Network", 2015: the Kullback-Leibler divergence of both
    softmaxes at a temperature, times its square, so that its gradient is as large as that of the hard loss.
    """
    if not classes:
        return functional.mse_loss(scores, right)
    softened = functional.log_softmax(scores / temperature, 1), functional.log_softmax(right / temperature, 1)
    divergence = functional.kl_div(*softened, reduction="none", log_target=True).sum(1).mean()
    return divergence * temperature**2


class Features:
    """Outputs of submodules while their module runs, by name."""

    def __init__(self, context: Context, role: str, module: torch.nn.Module, names: Sequence[str]) -> None:
        self.values: dict[str, torch.Tensor] = {}
        known = dict(module.named_modules())
        for name in names:
            if name not in known:
                raise context.failed(
                    f"features: the {role} has no submodule {name!r}",
                    why=f"it has {', '.join(filter(None, known))}",
                )
            known[name].register_forward_hook(self._keep(name))

    def _keep(self, name: str) -> Any:
        def keep_output(_module: Any, _inputs: Any, output: Any) -> None:
            self.values[name] = output[0] if isinstance(output, tuple) else output

        return keep_output


class Projections(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """Learned maps from features of the student to those of the teacher, where one axis differs in size.

    Romero et al., "FitNets: Hints for Thin Deep Nets", 2015.
    """

    def __init__(self, context: Context, pairs: Mapping[str, str], student: Features, teacher: Features) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher
        self.pairs = list(pairs.items())
        self.axes: dict[str, int] = {}  # by the number of the pair, as its map
        self.maps = torch.nn.ModuleDict()
        for number, (name, other) in enumerate(self.pairs):
            shape, right = student.values[name].shape, teacher.values[other].shape
            differing = [axis for axis, (size, wanted) in enumerate(zip(shape, right, strict=False)) if size != wanted]
            if len(shape) != len(right) or len(differing) > 1:
                raise context.failed(
                    f"features: {name!r} of the student cannot become {other!r} of the teacher",
                    why=f"they are {list(shape)} and {list(right)}, and a learned map changes the size of one axis",
                )
            for axis in differing:
                self.axes[str(number)] = axis
                self.maps[str(number)] = torch.nn.Linear(shape[axis], right[axis], bias=False)

    def compute_loss(self) -> torch.Tensor:
        """Return the mean squared error of all pairs in the last run of both, relative to the teacher's energy."""
        errors = []
        for number, (name, other) in enumerate(self.pairs):
            value, right = self.student.values[name], self.teacher.values[other]
            if (axis := self.axes.get(str(number))) is not None:
                value = self.maps[str(number)](value.movedim(axis, -1)).movedim(-1, axis)
            errors.append(functional.mse_loss(value, right) / right.square().mean().clamp_min(1e-12))
        return torch.stack(errors).mean()
