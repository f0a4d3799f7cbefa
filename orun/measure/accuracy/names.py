"""Names of the metrics of `measure/accuracy`. Planning reads them, so this imports little."""

from __future__ import annotations

from collections.abc import Mapping

from orun.core.metrics import GAIN, HIGHER_SHARE, LOWER, LOWER_SHARE, Quantity, parse_extra_reference

MODEL, REFERENCE, BASELINE = "model", "reference", "baseline"

FIDELITY: Mapping[str, tuple[str, ...]] = {
    "cosine": ("cosine", "cosine.mean", "cosine.min"),
    "max_abs": ("max_abs",),
    "relative": ("relative",),
    "sqnr": ("sqnr",),
    "agreement": ("agreement",),
    "agreement_at_5": ("agreement_at_5",),
    "kl": ("kl", "kl.max"),
}
"""Metric families against the reference's outputs, each with the names of its metrics."""
RECALL: Mapping[str, int] = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
RETRIEVAL: tuple[str, ...] = (*RECALL, "mrr")
LABELLED: tuple[str, ...] = (
    *("accuracy", "accuracy_at_5", "precision", "recall", "f1", "iou"),
    *("auc", "average_precision"),
)
RANKING: tuple[str, ...] = ("ndcg", "ndcg_at_10")
PROBABILITY: tuple[str, ...] = ("brier", "log_loss", "ece")
REGRESSION: tuple[str, ...] = ("mae", "rmse", "r2")
TASK: tuple[str, ...] = (*LABELLED, *PROBABILITY, *REGRESSION, *RANKING, *RETRIEVAL)
DETECTION: tuple[str, ...] = ("map", "map_50", "map_75")
TRANSCRIPTION: tuple[str, ...] = ("wer", "cer")
READ: tuple[str, ...] = (*DETECTION, *TRANSCRIPTION)
"""Metrics of boxes and texts, which parameters of `measure/accuracy` find in the outputs."""
QUANTITIES: Mapping[str, Quantity] = {
    **dict.fromkeys(FIDELITY["cosine"], Quantity("", "higher", -1.0, 1.0)),
    "relative": Quantity("ratio", "lower", 0.0),
    "sqnr": GAIN,
    **dict.fromkeys(("max_abs", *FIDELITY["kl"], "brier", "log_loss", "mae", "rmse"), LOWER),
    **dict.fromkeys(("agreement", "agreement_at_5", *LABELLED, *RECALL, *DETECTION), HIGHER_SHARE),
    **dict.fromkeys((*RANKING, "mrr"), Quantity("", "higher", 0.0, 1.0)),
    **dict.fromkeys(("ece", *TRANSCRIPTION), LOWER_SHARE),
    "r2": Quantity("", "higher", None, 1.0),
}


def format_title(role: str) -> str:
    """Return how a message calls a model: `reference.fused` is "reference `fused`", and every other role itself."""
    name = parse_extra_reference(role)
    return f"reference `{name}`" if name else role


LABEL = "label"  # name of the labels among the fields of a dataset


def slice_name(metric: str, field: str, value: object) -> str:
    """Return the name of a metric of the examples with a value in a field; printable whatever the value is."""
    text = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in str(value)
    )
    return f"{metric}[{field}={text}]"


def name_metric(metric: str, output: str) -> str:
    """Return the name of a metric of one output."""
    return f"{metric}[{output}]"
