"""Comparison of a converted estimator with scikit-learn, example by example."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin

from orun.errors import StageFailed, UsageError
from orun.stages._graph.agreement import Tolerance
from orun.stages._graph.io import load_graph
from orun.stages._graph.sessions import Feed, Model, session
from orun.stages._sklearn.export import Array, Table
from orun.stages._sklearn.plain import Estimator
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to

PIECES = (1, 3)  # the rows before which a new batch begins: one of 1, one of 2, and the rest


@dataclass(frozen=True)
class Found:
    """How well they agree: share of the examples, largest error of a score, and the worst output with an example."""

    agreement: float
    largest: float
    output: str
    why: str


def compare(context: Context, estimator: Estimator, data: Table, tolerance: Tolerance, *, raw: bool) -> Found:
    """Compare the model at `context.result` with the estimator on every row, in batches of several sizes.

    Raises:
        StageFailed: when ONNX Runtime cannot run the model, or an output has another form than scikit-learn's.
    """
    names = [value.name for value in load_graph(context.result).graph.output]
    with failing(context, f"the {type(estimator).__name__} cannot take the examples"), warnings_to(context.log):
        try:
            expected = list(_expected(estimator, data.matrix(estimator), raw=raw))
        except ValueError:  # a KMeans that was fitted in float32 takes nothing else
            expected = list(_expected(estimator, data.matrix(estimator, widened=False), raw=raw))
    if len(names) > len(expected):
        raise StageFailed(
            context.stage,
            f"scikit-learn has nothing to compare output {names[len(expected)]!r} with",
            why=f"its outputs are {', '.join(names)}; a {type(estimator).__name__} answers {len(expected)}",
        )
    answers = _answers(context, names, data)
    good = np.ones(len(data), dtype=bool)
    largest, worst = 0.0, ("", "")
    for name, right, value in zip(names, expected, answers, strict=False):
        rows, error = _rows(context, name, right, value, tolerance)
        largest = max(largest, error)
        if not rows.all() and (rows & good).sum() < good.sum():
            worst = worst if worst[0] else (name, _example(rows, right, value, tolerance))
        good &= rows
    return Found(float(good.mean()), largest, *worst)


def _expected(estimator: Estimator, matrix: Any, *, raw: bool) -> Iterator[Array]:
    """What scikit-learn answers, in the order of skl2onnx's outputs."""
    if not hasattr(estimator, "predict") or isinstance(estimator, SelectorMixin):
        transformed = estimator.transform(matrix)
        yield transformed.toarray() if hasattr(transformed, "toarray") else np.asarray(transformed)
        return
    yield np.asarray(estimator.predict(matrix))
    scores = ("decision_function",) if raw else ("predict_proba", "decision_function", "transform")
    method = next((one for one in scores if hasattr(estimator, one)), None)
    if method is not None:
        yield _plain(getattr(estimator, method)(matrix))


def _answers(context: Context, names: Sequence[str], data: Table) -> list[Array]:
    model = _opened(context, names, data.feed(slice(0, 1)))
    bounds = [0, *(row for row in PIECES if row < len(data)), len(data)]
    batches = [data.feed(slice(start, end)) for start, end in itertools.pairwise(bounds)]
    with failing(context, "ONNX Runtime cannot run the converted model", "try another `opset`"):
        parts = [model(feed) for feed in batches]
    return [_joined(context, name, [_plain(part[place]) for part in parts]) for place, name in enumerate(names)]


def _opened(context: Context, names: Sequence[str], feed: Feed) -> Model:
    try:
        return session(context.result, names)
    except UsageError as error:
        if "locale" not in error.why:
            raise StageFailed(
                context.stage,
                "ONNX Runtime cannot open the converted model",
                why=error.why,
                hint="skl2onnx converts some estimators for `precision: float32` alone"
                if any(value.dtype == np.float64 for value in feed.values())
                else "try another `opset`",
            ) from error
        raise StageFailed(
            context.stage,
            "ONNX Runtime cannot put texts into small letters here",
            why="it does so by the rules of a language, en_US.UTF-8 when none is named, which this system lacks",
            hint="name one that systems without language packs have, too: `options: {locale: C.UTF-8}`",
        ) from error


def _joined(context: Context, name: str, parts: Sequence[Array]) -> Array:
    """What batches of several sizes were answered, as one."""
    if len({part.shape[1:] for part in parts}) > 1:
        raise StageFailed(
            context.stage,
            f"output {name!r} of the converted model has another form for other numbers of examples",
            why=", ".join(str(list(part.shape)) for part in parts),
            hint="skl2onnx converts this estimator for one number of examples at most: choose another",
        )
    return np.concatenate(parts)


def _plain(value: Any) -> Array:
    """Dictionaries of an example as a row, and several arrays, of which each is of one label, as one."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([[score for _, score in sorted(row.items())] for row in value])
    return np.stack(value, axis=1) if isinstance(value, list) else np.asarray(value)


def _rows(
    context: Context, name: str, right: Array, value: Array, tolerance: Tolerance
) -> tuple[NDArray[np.bool_], float]:
    """Which rows agree, and the largest error."""
    right = _alike(right, value)
    if right.size != value.size or len(right) != len(value):
        raise StageFailed(
            context.stage,
            f"output {name!r} of the converted model has another form than what scikit-learn answers",
            why=f"{list(value.shape)} instead of {list(right.shape)}",
        )
    ours, theirs = value.reshape(len(value), -1), right.reshape(len(right), -1)
    if ours.dtype.kind != "f":
        return (ours.astype(str) == theirs.astype(ours.dtype).astype(str)).all(axis=1), 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    error = np.abs(ours - theirs)
    near = error <= tolerance.atol + tolerance.rtol * np.abs(theirs)
    same = near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return same.all(axis=1), float(np.nanmax(error, initial=0.0))


def _alike(right: Array, value: Array) -> Array:
    """Scores of one class as those of both, where the model yields both."""
    two = right.ndim == 1 and value.ndim == 2 and value.shape[1] == 2  # noqa: PLR2004 - both classes
    return np.stack([-right, right], axis=1) if two else right


def _example(rows: NDArray[np.bool_], right: Array, value: Array, tolerance: Tolerance) -> str:
    row = int(np.flatnonzero(~rows)[0])
    ours, theirs = (np.array2string(np.ravel(one[row])[:6], precision=6) for one in (value, _alike(right, value)))
    allowed = f", further off than {tolerance}" if value.dtype.kind == "f" else ""
    return (
        f"{np.count_nonzero(~rows)} of {len(rows)} examples differ{allowed}\nexample {row}: {ours} instead of {theirs}"
    )
