"""How far one model's outputs are from another's: exact figures that need no labels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SQNR_LIMIT = -20 * math.log10(sys.float_info.epsilon)
"""dB; what identical outputs get, the noise of double precision itself (313 dB), so that figures stay finite."""


@dataclass(frozen=True, eq=False)
class Difference:
    """One output of two models, compared example by example; every array is `[n]`.

    Attributes:
        dot: inner product of the two flattened outputs.
        power: sum of squares of the model's.
        reference_power: sum of squares of the reference's.
        noise: sum of squares of what lies between them.
        max_abs: largest absolute difference of an element.
        agreement: share of positions at which both have the same top class (the same value, for integer outputs).
    """

    dot: Floats
    power: Floats
    reference_power: Floats
    noise: Floats
    max_abs: Floats
    agreement: Floats

    @property
    def cosine(self) -> Floats:
        """Cosine similarity of each example; 1 where both are zero, 0 where one of them is."""
        scale = np.sqrt(self.power * self.reference_power)
        both_zero = (self.power == 0) & (self.reference_power == 0)
        cosine: Floats = both_zero.astype(np.float64)
        np.divide(self.dot, scale, out=cosine, where=scale > 0)
        np.clip(cosine, -1.0, 1.0, out=cosine)
        return cosine

    @property
    def sqnr(self) -> Floats:
        """Signal to quantization noise of each example in dB."""
        return np.array([decibels(*powers) for powers in zip(self.reference_power, self.noise, strict=True)])

    def take(self, order: NDArray[np.intp]) -> Difference:
        """Its examples in another order."""
        return Difference(**{field.name: getattr(self, field.name)[order] for field in fields(self)})


def compare(output: NDArray[Any], reference: NDArray[Any]) -> Difference:
    """Compare a batch of outputs, both `[b, ...]` of equal shape and type."""
    examples = len(reference)
    ours = output.reshape(examples, -1).astype(np.float64)
    theirs = reference.reshape(examples, -1).astype(np.float64)
    gap = ours - theirs
    return Difference(
        dot=np.einsum("ij,ij->i", ours, theirs),
        power=np.einsum("ij,ij->i", ours, ours),
        reference_power=np.einsum("ij,ij->i", theirs, theirs),
        noise=np.einsum("ij,ij->i", gap, gap),
        max_abs=np.abs(gap).max(axis=1, initial=0.0),
        agreement=_agreement(output, reference),
    )


def concatenate(parts: Sequence[Difference]) -> Difference:
    """Several comparisons of one output as one."""
    return Difference(
        **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Difference)}
    )


def _agreement(output: NDArray[Any], reference: NDArray[Any]) -> Floats:
    same = top_class(output) == top_class(reference)
    return np.asarray(same.reshape(len(same), -1).mean(axis=1), dtype=np.float64)


def top_class(output: NDArray[Any]) -> NDArray[Any]:
    """The class with the highest score along the last axis, `[b, ..., c] -> [b, ...]`; integers are classes already."""
    return output if output.dtype.kind in "iub" or output.ndim == 1 else output.argmax(axis=-1)


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal power / noise power), kept within `SQNR_LIMIT`."""
    if noise == 0:
        return SQNR_LIMIT
    if signal == 0:
        return -SQNR_LIMIT
    return min(max(10 * math.log10(signal / noise), -SQNR_LIMIT), SQNR_LIMIT)


PER_EXAMPLE: Mapping[str, Callable[[Difference], Floats]] = {
    "cosine": lambda difference: difference.cosine,
    "max_abs": lambda difference: difference.max_abs,
    "sqnr": lambda difference: difference.sqnr,
    "agreement": lambda difference: difference.agreement,
}

SUMMARIES: Mapping[str, Callable[[Difference], float]] = {
    "cosine": lambda difference: float(difference.cosine.mean()),
    "cosine.mean": lambda difference: float(difference.cosine.mean()),
    "cosine.min": lambda difference: float(difference.cosine.min()),
    "max_abs": lambda difference: float(difference.max_abs.max()),
    "sqnr": lambda difference: decibels(float(difference.reference_power.sum()), float(difference.noise.sum())),
    "agreement": lambda difference: float(difference.agreement.mean()),
}
