"""Parts of a scaled dot product attention, as `cores.find` returns them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import Dim

FOLDED, SEPARATE = 3, 4  # axes of scores whose heads are folded into the batch, and of others


class InPieces(Exception):
    """Reason why an attention stays as it is."""


@dataclass(frozen=True)
class Added:
    """A bias that is added to the scores.

    Attributes:
        value: of the bias.
        factor: multiplier of the bias.
        view: shape of the scores at that place.
    """

    value: ir.Value
    factor: float
    view: tuple[Dim, ...]


@dataclass(frozen=True)
class Chosen:
    """A mask that replaces scores by a number.

    Attributes:
        value: of the mask.
        shown: value of the mask where the scores stay.
        hidden: number that replaces the other scores.
        view: shape of the scores at that place.
    """

    value: ir.Value
    shown: bool
    hidden: float
    view: tuple[Dim, ...]


@dataclass(frozen=True)
class Floor:
    """A lower bound of the scores that still hides them, so that no score is infinite."""


Step = Added | Chosen | Floor


@dataclass(frozen=True)
class Core:
    """Computation of an attention: `softmax(biases(cap(scale * query @ key))) @ value`.

    Attributes:
        query, key, value: split into heads, `[batch, heads, length, size]`, unless `turned` or `mirrored`.
        turned: whether the key is `[batch, heads, size, length]`.
        mirrored: whether the product is `value @ weights`; value and output are then `[batch, heads, size, length]`.
        scale: multiplier of the scores.
        factor: multiplier of the queries by head, such as `[heads, 1, 1]`; None for most models.
        cap: scores become `cap * tanh(scores / cap)`; 0 for no cap.
        biases: later steps on the scores, the last first.
        guarded: whether rows that see nothing yield zeros.
        output: `[batch, heads, length, size]`, or `[batch * heads, length, size]`.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    turned: bool
    mirrored: bool
    scale: float
    factor: ir.Value | None
    cap: float
    biases: tuple[Step, ...]
    guarded: bool
    output: ir.Value

    @property
    def last(self) -> ir.Node:
        """Node that yields the output."""
        node = self.output.producer()
        assert node is not None  # noqa: S101 - `find` started at that node
        return node
