"""Answers of scikit-learn that change when its inputs are rounded to float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orun.measure.dataset import Array
from orun.stages._graph.differences import Tolerance
from orun.stages._sklearn.check import compare_rows, compute_answers
from orun.stages._sklearn.export import Table
from orun.stages._sklearn.plain import Estimator
from orun.stages.contract import Context
from orun.stages.library_warnings import warnings_to

OFFSET = "subtract an offset from the column before"
COARSE = 1e-5  # step of float32, in standard deviations of a column, from which on values fall together


def note_rounded_inputs(
    context: Context,
    estimator: Estimator,
    unrounded: Table,
    data: Table,
    tolerance: Tolerance,
    *,
    raw: bool,
    kept: NDArray[np.bool_],
    advice: str,
) -> None:
    """Note how many answers of scikit-learn change from the unrounded rows to the same rows in the data.

    The comparison cannot see that: both sides take the rounded rows. Rows in `kept` do not count: the converted model
    answers as for the unrounded ones. `advice` is what to do about it; for a column of large, close values the note
    also advises to subtract an offset.
    """
    rounded = {
        name: values
        for name, values in unrounded.columns.items()
        if values.dtype == np.float64 and not np.array_equal(values, data.columns[name], equal_nan=True)
    }
    if not rounded:
        return
    try:
        with warnings_to(context.log):
            before = compute_answers(estimator, unrounded, raw=raw)
            after = compute_answers(estimator, data, raw=raw)
    except ValueError:  # an estimator that was fitted in float32 takes nothing else
        return
    same = np.all([compare_rows(*pair, tolerance) for pair in zip(before, after, strict=True)], axis=0)
    if changed := int(np.count_nonzero(~(same | kept))):
        column, step = find_coarsest_column(rounded)
        steps = [advice] if advice else []
        steps += [OFFSET] if step >= COARSE else []
        context.note(
            f"{changed} of {len(data)} answers of scikit-learn itself change when its inputs are rounded to float32, "
            f"most in column {column}; the agreement leaves that out" + (f": {', or '.join(steps)}" if steps else "")
        )


def find_coarsest_column(columns: Mapping[str, Array]) -> tuple[str, float]:
    """Return the column that float32 rounds most, and the largest step of float32 in its standard deviations."""
    coarsest = ("", -1.0)
    for name, values in columns.items():
        if values.dtype.kind not in "iuf":
            continue
        rows = values.reshape(len(values), -1)
        for place, column in enumerate(rows.T):
            numbers = column[np.isfinite(column)].astype(np.float64)
            spread = np.std(numbers) if len(numbers) else 0
            step = float(np.spacing(np.float32(np.abs(numbers).max())) / spread) if spread else 0.0
            if step > coarsest[1]:
                coarsest = (repr(name) if rows.shape[1] == 1 else f"{place} of {name!r}", step)
    return coarsest
