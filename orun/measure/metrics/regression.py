"""Metrics of predicted numbers: mean absolute error, root mean squared error, and coefficient of determination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.fidelity import Floats
from orun.measure.metrics.pooled import Pooled, Rows, Weighted, average_classes, divide

Array = NDArray[Any]

LEAST_SPREAD = 1e-12  # share of the labels' squared spread below which a resample has none but by rounding


def mae(output: Array, labels: Array) -> Floats:
    """Return the mean absolute error of each example.

    Args:
        output: predicted numbers `[n, ...]`.
        labels: the right numbers, of the same shape; a last axis of 1 may be missing in either.

    Raises:
        UsageError: if the shapes do not fit, or a label is no finite number.
    """
    predicted, truth = _require_numbers("mae", output, labels)
    return np.asarray(np.abs(predicted - truth).mean(axis=1), dtype=np.float64)


def rmse(output: Array, labels: Array) -> Callable[[Rows], Pooled]:
    """Return a function of indices of examples to the root of their mean squared error, over all positions.

    Arguments and errors are as for `mae`.
    """
    predicted, truth = _require_numbers("rmse", output, labels)
    squares = np.square(predicted - truth).mean(axis=1)

    def pool(examples: Rows) -> Pooled:
        def weigh_rows(rows: Rows) -> Weighted:
            chosen = squares[examples[rows]]
            return lambda weights: np.sqrt(divide(weights @ chosen, weights.sum(axis=1)))

        return Pooled(squares[examples, None], weigh_rows, len(examples))

    return pool


def r2(output: Array, labels: Array) -> Callable[[Rows], Pooled | None]:
    """Return a function of indices of examples to their R², the mean over positions, as scikit-learn's `r2_score`.

    It is 1 minus the squared errors over the squared distances of the labels from their mean. Positions at which all
    labels are equal do not count. It returns None for examples whose labels are equal everywhere.

    Arguments are as for `mae`.

    Raises:
        UsageError: as `mae` does, or if all labels are equal.
    """
    predicted, truth = _require_numbers("r2", output, labels)
    squares = np.square(predicted - truth)
    truth = truth - truth.mean(axis=0)
    spread = np.square(truth).sum(axis=0)
    if not np.ptp(truth, axis=0).any():
        raise UsageError(f"r2: every label is {labels.ravel()[0]:g}", why="there is no variance to explain")

    def pool(examples: Rows) -> Pooled | None:
        def weigh_rows(rows: Rows) -> Weighted:
            errors, values = squares[examples[rows]], truth[examples[rows]]

            def weigh(weights: Floats) -> Floats:
                total = weights @ np.square(values) - np.square(weights @ values) / weights.sum(axis=1, keepdims=True)
                has_spread = total > LEAST_SPREAD * spread
                return average_classes(1 - divide(weights @ errors, np.where(has_spread, total, 0.0)))

            return weigh

        if not np.ptp(truth[examples], axis=0).any():
            return None
        return Pooled(examples[:, None].astype(np.float64), weigh_rows, len(examples))

    return pool


def compare_with_mean(output: Array, labels: Array) -> tuple[float, float]:
    """Return the root mean squared error of predictions, and that of the mean of all labels.

    Arguments and errors are as for `mae`.
    """
    predicted, truth = _require_numbers("rmse", output, labels)
    errors = (np.sqrt(np.square(other - truth).mean()) for other in (predicted, truth.mean()))
    ours, constant = map(float, errors)
    return ours, constant


def _require_numbers(metric: str, output: Array, labels: Array) -> tuple[Floats, Floats]:
    """Return what the model predicts, and the labels, `[n, positions]`."""
    kinds = output.dtype.kind, labels.dtype.kind
    if _squeeze_shape(output.shape) != _squeeze_shape(labels.shape) or not {*kinds} <= {*"biuf"}:
        raise UsageError(
            f"{metric} needs a predicted number for each label",
            why=f"the output is {output.dtype} {list(output.shape)}, the labels {labels.dtype} {list(labels.shape)}",
            hint="name the output that holds the predictions in `outputs`, or pick them in a function: "
            "`postprocess: file.py:function`",
        )
    truth = labels.reshape(len(labels), -1).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(truth).all(axis=1))
    if bad.size:
        raise UsageError(
            f"{metric} needs finite numbers as labels",
            why=f"{bad.size} of {len(truth)} labels are not; the first is that of example {bad[0]}",
            hint="leave out examples without a label",
        )
    return output.reshape(truth.shape).astype(np.float64), truth


def _squeeze_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without a last axis of 1 behind that of the examples."""
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape
