"""Comparison of a converted estimator with scikit-learn, example by example."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin

from orun.errors import UsageError
from orun.measure.dataset import Array
from orun.stages._graph.differences import MULTIPLE, Tolerance
from orun.stages._graph.io import load_graph
from orun.stages._graph.limits import Limit, merge
from orun.stages._graph.sessions import Feed, Model, open_model
from orun.stages._sklearn.export import Table
from orun.stages._sklearn.plain import Estimator, has_trees, iter_parts
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to

STEPS = 8  # of the way from learned numbers to their float32
BATCH_STARTS = (1, 3)  # batches of one row, of two, and of the rest


@dataclass(frozen=True)
class Comparison:
    """Agreement of a converted estimator with scikit-learn.

    Attributes:
        agreement: share of the examples whose outputs all agree.
        largest: largest error of a score.
        output: the first output that disagrees; empty when all agree.
        why: an example that disagrees, for messages.
        sizes: of each output of the converted model, the sizes of its axes behind that of the examples.
        unrounded: examples with the answers that scikit-learn gives for the values before they were rounded.
    """

    agreement: float
    largest: float
    output: str
    why: str
    sizes: Mapping[str, Sequence[int]]
    unrounded: NDArray[np.bool_]


def compare(
    context: Context, estimator: Estimator, data: Table, unrounded: Table, tolerance: Tolerance, *, raw: bool
) -> Comparison:
    """Compare the model at `context.result` with the estimator on every row, in batches of several sizes.

    An answer may also be that for the unrounded row: thresholds in float64, as of HistGradientBoosting, are often
    values of the data, and rounded with them. Where a model in float32 disagrees otherwise, the tolerance is at least
    `MULTIPLE` times what scikit-learn's own answers change by when what it learned is rounded to float32. A note says
    for how many examples that was needed.

    Raises:
        StageFailed: when ONNX Runtime cannot run the model, or an output has another form than scikit-learn's.
    """
    names = [value.name for value in load_graph(context.result).graph.output]
    with failing(context, f"the {type(estimator).__name__} cannot take the examples"), warnings_to(context.log):
        expected = compute_answers(estimator, data, raw=raw)
    if len(names) > len(expected):
        raise context.failed(
            f"scikit-learn has nothing to compare output {names[len(expected)]!r} with",
            why=f"its outputs are {', '.join(names)}; a {type(estimator).__name__} answers {len(expected)}",
        )
    answers = _run_converted(context, names, data)
    expected = [_align(right, value) for right, value in zip(expected, answers, strict=False)]
    for name, right, value in zip(names, expected, answers, strict=True):
        if right.size != value.size or len(right) != len(value):
            raise context.failed(
                f"output {name!r} of the converted model has another form than what scikit-learn answers",
                why=f"{list(value.shape)} instead of {list(right.shape)}",
                hint="skl2onnx converts it for one number an example: fit a `MultiOutputRegressor` of it"
                if value.size == right.size and value.shape == (right.size, 1)
                else "",
            )
    strict = [compare_rows(right, value, tolerance) for right, value in zip(expected, answers, strict=True)]
    ties = _find_ties(estimator, expected, answers, tolerance) & ~strict[0]
    if ties.any():
        strict[0] |= ties
        context.note(
            f"{np.count_nonzero(ties)} of {len(data)} examples have another label than in scikit-learn, and count as "
            "equal: scikit-learn's own scores of both labels are equal there, within the tolerance"
        )
    unrounded_rows = np.zeros(len(data), np.bool_)
    if has_trees(estimator) and not np.all(strict):
        exact = _compute_unrounded(context, estimator, unrounded, answers, raw=raw) or expected
        same = [compare_rows(right, value, tolerance) for right, value in zip(exact, answers, strict=True)]
        unrounded_rows = np.all(same, axis=0) & ~np.all(strict, axis=0)
        expected = [
            np.where(unrounded_rows.reshape(-1, *[1] * (right.ndim - 1)), other, right)
            for right, other in zip(expected, exact, strict=True)
        ]
        strict = [agreeing | unrounded_rows for agreeing in strict]
    rows = strict
    if not np.all(strict) and not any(values.dtype == np.float64 for values in data.columns.values()):
        limits = _compute_limits(context, estimator, data, expected, raw=raw)
        rows = [
            compare_rows(right, value, tolerance, limit)
            for right, value, limit in zip(expected, answers, limits, strict=True)
        ]
        rows[0] |= ties
    good = np.all(rows, axis=0)
    excused = int(np.count_nonzero(good & ~np.all(strict, axis=0)))
    if excused:
        context.note(
            f"{excused} of {len(data)} examples are off beyond the tolerance and count as equal: scikit-learn's own "
            f"answers change there when what it learned is rounded to float32, and {MULTIPLE} times that is allowed"
            f"{'' if has_trees(estimator) else '; `precision: float64` avoids it'}"
        )
    output, why = next(
        (
            (name, _describe_example(agreeing, right, value, tolerance, differing=int(np.count_nonzero(~good))))
            for name, agreeing, right, value in zip(names, rows, expected, answers, strict=True)
            if not agreeing.all()
        ),
        ("", ""),
    )
    largest = max(_compute_largest_error(right, value) for right, value in zip(expected, answers, strict=True))
    sizes = {name: value.shape[1:] for name, value in zip(names, answers, strict=True)}
    return Comparison(float(good.mean()), largest, output, why, sizes, unrounded_rows)


def _compute_unrounded(
    context: Context, estimator: Estimator, unrounded: Table, answers: Sequence[Array], *, raw: bool
) -> list[Array]:
    """Return what scikit-learn answers for the unrounded rows; nothing if it takes float32 alone."""
    try:
        with warnings_to(context.log):
            exact = compute_answers(estimator, unrounded, raw=raw)
    except ValueError:
        return []
    return [_align(right, value) for right, value in zip(exact, answers, strict=False)]


def compute_answers(estimator: Estimator, data: Table, *, raw: bool) -> list[Array]:
    """Return what scikit-learn answers, in float64 where the estimator takes it, in the order of skl2onnx's outputs."""
    try:
        return list(_compute_expected(estimator, data.to_matrix(estimator), raw=raw))
    except ValueError:  # a KMeans that was fitted in float32 takes nothing else
        return list(_compute_expected(estimator, data.to_matrix(estimator, widened=False), raw=raw))


def list_methods(estimator: Estimator, *, raw: bool) -> tuple[str, ...]:
    """Return the methods whose results are skl2onnx's outputs, in order."""
    if not hasattr(estimator, "predict") or isinstance(estimator, SelectorMixin):
        return ("transform",)
    scores = ("decision_function",) if raw else ("predict_proba", "decision_function", "transform")
    return ("predict", *[name for name in scores if hasattr(estimator, name)][:1])


def _compute_expected(estimator: Estimator, matrix: Any, *, raw: bool) -> Iterator[Array]:
    for method in list_methods(estimator, raw=raw):
        answer = getattr(estimator, method)(matrix)
        yield answer.toarray() if hasattr(answer, "toarray") else _to_array(answer)


def _compute_limits(
    context: Context, estimator: Estimator, data: Table, expected: Sequence[Array], *, raw: bool
) -> Sequence[Limit | None]:
    """Return by how much each answer changes when the numbers that scikit-learn learned are rounded to float32.

    They go only `1 / STEPS` of the way there, and the change counts `STEPS` times. Otherwise a value on a threshold
    would jump to its other side whenever rounding makes the two equal, and a wrong comparison would be excused.
    """
    moved = deepcopy(estimator)
    for part in iter_parts(moved):
        for name, value in vars(part).items():
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                setattr(part, name, value + (value.astype(np.float32) - value) / STEPS)
    with warnings_to(context.log):
        moved_answers = compute_answers(moved, data, raw=raw)
    aligned = [_align(other, right) for other, right in zip(moved_answers, expected, strict=False)]
    limits = merge([(expected, aligned)], None)
    return [limit and replace(limit, spread=STEPS * limit.spread) for limit in limits]


def _run_converted(context: Context, names: Sequence[str], data: Table) -> list[Array]:
    model = _open(context, names, data.feed(slice(0, 1)))
    bounds = [0, *(row for row in BATCH_STARTS if row < len(data)), len(data)]
    batches = [data.feed(slice(start, end)) for start, end in itertools.pairwise(bounds)]
    with failing(context, "ONNX Runtime cannot run the converted model", "try another `opset`"):
        parts = [model(feed) for feed in batches]
    return [_join(context, name, [_to_array(part[place]) for part in parts]) for place, name in enumerate(names)]


def _open(context: Context, names: Sequence[str], feed: Feed) -> Model:
    try:
        return open_model(context.result, names)
    except UsageError as error:
        if missing := re.search(r"(\w+)\(-?\d+\) is not a registered function/op", error.why):
            raise context.failed(
                "ONNX Runtime cannot open the converted model",
                why=f"it does not have the operator {missing[1]}, which skl2onnx writes",
                hint="take another estimator",
            ) from error
        if "locale" not in error.why:
            raise context.failed(
                "ONNX Runtime cannot open the converted model",
                why=error.why,
                hint="skl2onnx converts some estimators for `precision: float32` alone"
                if any(value.dtype == np.float64 for value in feed.values())
                else "try another `opset`",
            ) from error
        raise context.failed(
            "ONNX Runtime cannot put texts into small letters here",
            why="it does so by the rules of a language, en_US.UTF-8 when none is named, which this system lacks",
            hint="name one that systems without language packs have, too: `options: {locale: C.UTF-8}`",
        ) from error


def _join(context: Context, name: str, parts: Sequence[Array]) -> Array:
    if len({part.shape[1:] for part in parts}) > 1:
        raise context.failed(
            f"output {name!r} of the converted model has another form for other numbers of examples",
            why=", ".join(str(list(part.shape)) for part in parts),
            hint="skl2onnx converts this estimator for one number of examples at most: choose another",
        )
    return np.concatenate(parts)


def _to_array(value: Any) -> Array:
    """Return one array of scores for a dictionary per example, or for an array per label: `[n, labels, classes]`."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([[score for _, score in sorted(row.items())] for row in value])
    if not isinstance(value, list):
        return np.asarray(value)
    most = max(scores.shape[-1] for scores in value)
    padded = [np.pad(scores, [(0, 0)] * (scores.ndim - 1) + [(0, most - scores.shape[-1])]) for scores in value]
    return np.stack(padded, axis=1)


def _align(right: Array, value: Array) -> Array:
    """Return the scores of both classes where the model yields both and scikit-learn those of one."""
    two = right.ndim == 1 and value.ndim == 2 and value.shape[1] == 2  # noqa: PLR2004 - both classes
    return np.stack([-right, right], axis=1) if two else right


def compare_rows(right: Array, value: Array, tolerance: Tolerance, limit: Limit | None = None) -> NDArray[np.bool_]:
    """Return which rows agree."""
    rows = len(value)
    ours, theirs = value.reshape(rows, -1), right.reshape(rows, -1)
    spread = 0.0 if limit is None else limit.spread.reshape(rows, -1)
    if ours.dtype.kind != "f":
        same = (ours.astype(str) == theirs.astype(ours.dtype).astype(str)) | (np.asarray(spread) > 0)
    else:
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        allowed = np.maximum(tolerance.atol + tolerance.rtol * np.abs(theirs), MULTIPLE * spread)
        same = (np.abs(ours - theirs) <= allowed) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    agreeing: NDArray[np.bool_] = same.all(axis=1)
    return agreeing


def _find_ties(
    estimator: Estimator, expected: Sequence[Array], answers: Sequence[Array], tolerance: Tolerance
) -> NDArray[np.bool_]:
    """Return the rows in which scikit-learn's scores of its label and of the converted model's are equal."""
    labels, classes = answers[0], getattr(estimator, "classes_", ())
    rows = len(labels)
    if len(expected) == 1 or labels.size != rows or expected[1].shape != (rows, len(classes)):
        return np.zeros(rows, np.bool_)
    columns = {label: column for column, label in enumerate(_as_texts(classes, labels))}
    pair = [[columns.get(label, -1) for label in _as_texts(side, labels)] for side in (labels, expected[0])]
    ours, theirs = (expected[1][np.arange(rows), chosen] for chosen in pair)
    is_known = np.min(pair, axis=0) >= 0
    tied: NDArray[np.bool_] = is_known & (np.abs(ours - theirs) <= tolerance.atol + tolerance.rtol * np.abs(theirs))
    return tied


def _as_texts(values: Any, labels: Array) -> list[str]:
    """Return labels as texts, all by the type that the model gives them."""
    return [str(value) for value in np.ravel(values).astype(labels.dtype)]


def _compute_largest_error(right: Array, value: Array) -> float:
    if value.dtype.kind != "f":
        return 0.0
    error = np.abs(value.astype(np.float64).ravel() - right.astype(np.float64).ravel())
    return float(np.nanmax(error, initial=0.0))


def _describe_example(
    agreeing: NDArray[np.bool_], right: Array, value: Array, tolerance: Tolerance, *, differing: int
) -> str:
    """Describe the first example in which an output disagrees; `differing` counts those of all outputs."""
    row = int(np.flatnonzero(~agreeing)[0])
    here = np.count_nonzero(~agreeing)
    ours, theirs = (np.array2string(np.ravel(array[row])[:6], precision=6) for array in (value, right))
    allowed = f", further off than {tolerance}" if value.dtype.kind == "f" else ""
    in_all = f"; with the other outputs, {differing}" if differing > here else ""
    return f"{here} of {len(agreeing)} examples differ{allowed}{in_all}\nexample {row}: {ours} instead of {theirs}"
