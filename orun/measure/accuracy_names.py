"""The names of what `measure/accuracy` knows; imports nothing, so that planning can read them."""

from __future__ import annotations

from collections.abc import Mapping

MODEL, REFERENCE, BASELINE = "model", "reference", "baseline"

FIDELITY: Mapping[str, tuple[str, ...]] = {
    "cosine": ("cosine", "cosine.mean", "cosine.min"),
    "max_abs": ("max_abs",),
    "sqnr": ("sqnr",),
    "agreement": ("agreement",),
}
"""Metrics against the reference's outputs, each with the names that it yields."""
RECALL: Mapping[str, int] = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
RETRIEVAL: tuple[str, ...] = (*RECALL, "mrr")
TASK: tuple[str, ...] = ("accuracy", *RETRIEVAL)
SHARES: tuple[str, ...] = ("agreement", "accuracy", *RECALL)
"""Metrics that are proportions."""


def named(metric: str, output: str) -> str:
    """The name of a metric of one output."""
    return f"{metric}[{output}]"
