"""Fidelity metrics: differences of a model's outputs from a reference's. Exact figures that need no labels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SQNR_LIMIT = -20 * math.log10(sys.float_info.epsilon)
"""dB; SQNR of identical outputs: the noise of double precision (313 dB), so that figures stay finite."""

TOP = 5
LEAST = 1e-12  # probability that replaces zeros, as of a quantized softmax
SUM_TOLERANCE = 1e-2  # distance from 1 of the sum of probabilities in half precision


@dataclass(frozen=True, eq=False)
class Difference:
    """One output of two models, compared example by example; every array is `[n]`.

    Attributes:
        dot: inner product of the two flattened outputs; NaN for a single number, which has a sign but no angle.
        power: sum of squares of the model's.
        reference_power: sum of squares of the reference's.
        noise: sum of squares of their difference.
        max_abs: largest absolute difference of an element.
        peak: largest magnitude of an element of the reference.
        agreement: share of positions at which both have the same top class (the same value, for integer outputs).
        agreement_at_5: share of the reference's five top classes that are among the model's five, over positions.
        kl: Kullback-Leibler divergence of the model's distribution from the reference's in nats, mean over positions.

    The last three are NaN for an output without classes, and if they were not asked for.
    """

    dot: Floats
    power: Floats
    reference_power: Floats
    noise: Floats
    max_abs: Floats
    peak: Floats
    agreement: Floats
    agreement_at_5: Floats
    kl: Floats

    @property
    def cosine(self) -> Floats:
        """Cosine similarity of each example; 1 if both outputs are zero, 0 if one is; NaN for a single number."""
        scale = np.sqrt(self.power * self.reference_power)
        both_zero = (self.power == 0) & (self.reference_power == 0)
        cosine: Floats = np.where(np.isnan(self.dot), np.nan, both_zero)
        np.divide(self.dot, scale, out=cosine, where=scale > 0)
        np.clip(cosine, -1.0, 1.0, out=cosine)
        return cosine

    @property
    def relative(self) -> Floats:
        """Largest difference of each example over its reference's largest magnitude; 1 if only the reference is 0."""
        relative: Floats = (self.max_abs > 0).astype(np.float64)
        np.divide(self.max_abs, self.peak, out=relative, where=self.peak > 0)
        return relative

    @property
    def sqnr(self) -> Floats:
        """Signal-to-quantization-noise ratio of each example in dB."""
        return np.array([decibels(*powers) for powers in zip(self.reference_power, self.noise, strict=True)])

    def measure_each(self, family: str) -> Floats:
        """Return the value of each example in a family of metrics, which has the name of an attribute."""
        values: Floats = getattr(self, family)
        return values

    def take(self, order: NDArray[np.intp]) -> Difference:
        """Return the examples at these indices."""
        return Difference(**{field.name: getattr(self, field.name)[order] for field in fields(self)})


def compare(output: NDArray[Any], reference: NDArray[Any], families: Collection[str]) -> Difference:
    """Compare a batch of outputs, both `[b, ...]` of equal shape and type.

    Args:
        output: of the model.
        reference: output of the reference.
        families: metrics to compute. Those of `BY_CLASS` take long for many classes, and are left out if not among
            them; the others always come.
    """
    examples = len(reference)
    ours = output.reshape(examples, -1).astype(np.float64)
    theirs = reference.reshape(examples, -1).astype(np.float64)
    gap = ours - theirs
    return Difference(
        dot=np.einsum("ij,ij->i", ours, theirs) if ours.shape[1] != 1 else np.full(examples, np.nan),
        power=np.einsum("ij,ij->i", ours, ours),
        reference_power=np.einsum("ij,ij->i", theirs, theirs),
        noise=np.einsum("ij,ij->i", gap, gap),
        max_abs=np.abs(gap).max(axis=1, initial=0.0),
        peak=np.abs(theirs).max(axis=1, initial=0.0),
        **{
            family: measure(output, reference) if family in families else np.full(examples, np.nan)
            for family, measure in BY_CLASS.items()
        },
    )


def concatenate(parts: Sequence[Difference]) -> Difference:
    """Join comparisons of one output."""
    return Difference(
        **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Difference)}
    )


def agreement(output: NDArray[Any], reference: NDArray[Any]) -> Floats:
    """Return the share of positions of each example with the same top class; NaN for a single score."""
    if is_single_score(output):
        return np.full(len(output), np.nan)
    same = find_top_class(output) == find_top_class(reference)
    return _average_positions(same, len(same), 1.0)


def agreement_at(k: int, output: NDArray[Any], reference: NDArray[Any]) -> Floats:
    """Return the share of the reference's `k` top classes, or of all if there are fewer, among the model's.

    It is that of `agreement` for outputs that are classes, and NaN for a single score.
    """
    if is_classes(output) or is_single_score(output):
        return agreement(output, reference)
    ours, theirs = (find_top_classes(k, scores.reshape(-1, scores.shape[-1])) for scores in (output, reference))
    shared = (theirs[:, :, None] == ours[:, None, :]).any(axis=2)
    return _average_positions(shared, len(output), 1.0)


def find_top_classes(k: int, scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the `k` classes with the highest scores, the first of equal ones: `[n, c] -> [n, k]`."""
    return np.argsort(-scores.astype(np.float64), axis=1, kind="stable")[:, :k]


def divergence(output: NDArray[Any], reference: NDArray[Any]) -> Floats:
    """Return KL(reference || model) of each example in nats, mean over positions.

    It is 0 for outputs that are classes, and NaN for a single score. The last axis holds probabilities if the
    reference's are a distribution, else logits, whose softmax is taken. Probabilities below `LEAST` count as `LEAST`,
    so that a zero does not make the result infinite.
    """
    if is_classes(output):
        return np.zeros(len(output))
    if is_single_score(output):
        return np.full(len(output), np.nan)
    ours, theirs = (scores.reshape(-1, scores.shape[-1]).astype(np.float64) for scores in (output, reference))
    distributed = are_distributions(theirs)
    log_q, log_p = (
        np.where(distributed[:, None], _compute_log(values), log_softmax(values)) for values in (ours, theirs)
    )
    positions = (np.exp(log_p) * (log_p - log_q)).sum(axis=1)
    return _average_positions(np.maximum(positions, 0.0), len(output), 0.0)


def _average_positions(values: NDArray[Any], examples: int, empty: float) -> Floats:
    """Return the mean of each example; `empty` for outputs without positions, such as no detections in an image."""
    rows = values.reshape(examples, -1)
    return np.asarray(rows.mean(axis=1), dtype=np.float64) if rows.size else np.full(examples, empty)


def _compute_log(probabilities: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(probabilities, LEAST)), dtype=np.float64)


def are_distributions(scores: Floats) -> NDArray[np.bool_]:
    """Return which rows are probabilities of classes, not logits."""
    return np.asarray((scores >= 0).all(axis=1) & (np.abs(scores.sum(axis=1) - 1) < SUM_TOLERANCE))


def log_softmax(logits: Floats) -> Floats:
    """Return the log of the softmax over the last of two axes."""
    shifted = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), dtype=np.float64)


def is_classes(output: NDArray[Any]) -> bool:
    """Return whether an output holds classes, as numbers or texts, not scores."""
    return output.dtype.kind != "f"


def is_single_score(output: NDArray[Any]) -> bool:
    """Return whether an output holds a score alone, `[b]` or `[b, ..., 1]`, and so no top class."""
    return not is_classes(output) and (output.ndim == 1 or output.shape[-1] <= 1)


def find_top_class(output: NDArray[Any]) -> NDArray[Any]:
    """Return the class with the highest score along the last axis, `[b, ..., c] -> [b, ...]`; classes unchanged.

    A single score has no top class.
    """
    return output if is_classes(output) else output.argmax(axis=-1)


def decibels(signal: float, noise: float) -> float:
    """Return 10 log10(signal power / noise power), limited to `SQNR_LIMIT`."""
    if noise == 0:
        return SQNR_LIMIT
    if signal == 0:
        return -SQNR_LIMIT
    return min(max(10 * math.log10(signal / noise), -SQNR_LIMIT), SQNR_LIMIT)


BY_CLASS: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {
    "agreement": agreement,
    "agreement_at_5": partial(agreement_at, TOP),
    "kl": divergence,
}
"""Families of metrics that compare classes."""

SUMMARIES: Mapping[str, Callable[[Difference], float]] = {
    "cosine": lambda difference: float(np.nanmean(difference.cosine)),
    "cosine.mean": lambda difference: float(np.nanmean(difference.cosine)),
    "cosine.min": lambda difference: float(np.nanmin(difference.cosine)),
    "max_abs": lambda difference: float(difference.max_abs.max()),
    "relative": lambda difference: float(difference.relative.max()),
    "sqnr": lambda difference: decibels(float(difference.reference_power.sum()), float(difference.noise.sum())),
    "agreement": lambda difference: float(np.nanmean(difference.agreement)),
    "agreement_at_5": lambda difference: float(np.nanmean(difference.agreement_at_5)),
    "kl": lambda difference: float(np.nanmean(difference.kl)),
    "kl.max": lambda difference: float(np.nanmax(difference.kl)),
}
