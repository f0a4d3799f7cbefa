"""Protocol of the models that `convert/tensorflow` takes, and the axes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from orun.core.dynamic_axes import make_name
from orun.errors import UsageError
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.dataset import Array


@dataclass(frozen=True)
class DeclaredInput:
    """Axes and type that a pipeline declares for an input; None where the model has them."""

    shape: Sequence[int | str] | None
    dtype: str | None


Declared: TypeAlias = Mapping[str, DeclaredInput]


class Model(Protocol):
    """Model as a function of named arrays."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the model, their open axes named."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""

    @property
    def weights(self) -> int:
        """Bytes of the weights."""

    @property
    def title(self) -> str:
        """Version of TensorFlow, and the part of it that runs the model."""

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """Run the model in TensorFlow."""

    def bind(self, feed: Feed) -> Callable[[], object]:
        """Return a function that runs the model on these inputs, which are converted beforehand."""

    def nudged_weights(self, seed: int) -> AbstractContextManager[None]:
        """Change weights by at most one unit in the last place within a block, where they can be changed."""

    def convert(self, opset: int) -> tuple[ModelProto, Sequence[str], Sequence[str]]:
        """Convert the model with tf2onnx; return it with its names of the inputs and outputs, in order."""


def axes(name: str, shape: Sequence[int | None] | None, declared: Declared) -> tuple[int | str, ...]:
    """Return the axes of an input: as the pipeline declares them, otherwise the model's, with names for open ones.

    Args:
        name: of the input.
        shape: as the model has it; None where it leaves the number of axes open.
        declared: what the pipeline declares of inputs.

    Raises:
        UsageError: when the pipeline declares other axes than the model has.
    """
    wanted = declared[name].shape if name in declared else None
    if wanted is None:
        return tuple(
            make_name(name, place) if size is None or size < 0 else size
            for place, size in enumerate([None] if shape is None else shape)
        )
    if shape is not None and not _fits(shape, wanted):
        open_as = ", ".join("?" if size is None or size < 0 else str(size) for size in shape)
        raise UsageError(
            f"inputs: the shape of {name!r} cannot be {list(wanted)}",
            why=f"the model has [{open_as}]",
            hint="name or fix the axes that it leaves open, and repeat the others",
        )
    return tuple(wanted)


def _fits(shape: Sequence[int | None], wanted: Sequence[int | str]) -> bool:
    return len(shape) == len(wanted) and all(
        size is None or size < 0 or size == axis for size, axis in zip(shape, wanted, strict=True)
    )
