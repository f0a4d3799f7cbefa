"""Model contract of `convert/tensorflow`, and the names of open axes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from orun.errors import UsageError
from orun.stages._graph.axes import made_up
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Array: TypeAlias = NDArray[Any]


class Model(Protocol):
    """A model as a function of named arrays."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it takes, open axes named."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it yields, in order."""

    @property
    def weights(self) -> int:
        """Bytes of what it has learned."""

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """What TensorFlow makes of the inputs."""

    def nudged_weights(self, seed: int) -> AbstractContextManager[None]:
        """Within it weights are changed by at most one unit in the last place, where they can be changed."""

    def convert(self, opset: int) -> tuple[ModelProto, Sequence[str], Sequence[str]]:
        """What tf2onnx makes of it, with the names in it of the inputs and of the outputs, in order."""


def axes(name: str, shape: Sequence[int | None] | None, said: Sequence[int | str] | None) -> tuple[int | str, ...]:
    """The axes of an input: those that the pipeline says, otherwise its own with names for the open ones.

    Args:
        name: of the input.
        shape: as the model has it; None where it leaves the number of axes open.
        said: what the pipeline says.

    Raises:
        UsageError: when the pipeline says other axes than the model has.
    """
    if said is not None:
        if shape is not None and not _fits(shape, said):
            open_as = ", ".join("?" if size is None or size < 0 else str(size) for size in shape)
            raise UsageError(
                f"inputs: the shape of {name!r} cannot be {list(said)}",
                why=f"the model has [{open_as}]",
                hint="name or fix the axes that it leaves open, and repeat the others",
            )
        return tuple(said)
    return tuple(
        size if size is not None and size >= 0 else made_up(name, place)
        for place, size in enumerate([None] if shape is None else shape)
    )


def _fits(shape: Sequence[int | None], said: Sequence[int | str]) -> bool:
    return len(shape) == len(said) and all(
        size is None or size < 0 or size == other for size, other in zip(shape, said, strict=True)
    )
