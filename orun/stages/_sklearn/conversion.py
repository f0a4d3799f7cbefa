"""One conversion by skl2onnx: types of the inputs, options, and the forms in which it takes columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.stages._sklearn.input_columns import NUMBERS, accept_columns, matrix_of, widen
from orun.stages._sklearn.plain import Estimator, last_step, parts_of
from orun.stages._sklearn.wide_steps import has_trees, with_wide_steps
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto

Columns: TypeAlias = Mapping[str, NDArray[Any]]
LETTER = r"[\p{L}\p{N}_]"  # `\w` of Python; that of ONNX Runtime takes ASCII alone
TOKENS = {  # by `token_pattern`; the first is the default
    r"(?u)\b\w\w+\b": f"{LETTER}{{2,}}",
    r"(?u)\b\w+\b": f"{LETTER}+",
}
ML_OPSET = 3  # of trees and other models that are no neural networks; converters differ in whether they know 4


@dataclass(frozen=True)
class Settings:
    """Settings of a conversion.

    Attributes:
        opset: version of the ONNX operator set.
        zipmap: whether probabilities become dictionaries.
        options: of skl2onnx, for the estimator.
        outputs: names of the outputs; those of skl2onnx when empty.
    """

    opset: int
    zipmap: bool
    options: Mapping[str, Any]
    outputs: Sequence[str]


def convert(context: Context, estimator: Estimator, columns: Columns, settings: Settings) -> ModelProto:
    """Convert an estimator, with its inputs in the order of the columns.

    scikit-learn computes in float64. Before trees, the steps of a pipeline do so here, too: else a value on a threshold
    may fall to its other side. Other pipelines do where skl2onnx does not mix the types of the columns.

    Raises:
        Exception: of any class, by skl2onnx.
    """
    with_trees = has_trees(estimator)
    if with_trees and (model := _convert_wide(context, estimator, columns, settings)):
        return model
    try:
        return _convert_as(context, estimator, columns, columns, settings)
    except RuntimeError:  # converters that want one type have no other class in common
        if not with_trees and (model := _convert_wide(context, estimator, columns, settings)):
            return model
        raise


def _convert_wide(context: Context, estimator: Estimator, columns: Columns, settings: Settings) -> ModelProto | None:
    """Convert a pipeline with its steps but the last in float64; None if there are none, or one cannot be converted."""
    from onnxruntime import InferenceSession

    pipeline = with_wide_steps(estimator)
    kinds = {values.dtype.kind for values in columns.values()}
    is_wide = any(values.dtype == np.float64 for values in columns.values())
    if pipeline is None or is_wide or not kinds & {*NUMBERS}:
        return None
    try:
        model = _convert_as(context, pipeline, columns, widen(columns), settings)
        InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the libraries raise errors of any class
        context.log.info("steps in float64 cannot be converted: %s", error)
        return None
    return model


def _convert_as(
    context: Context, estimator: Estimator, columns: Columns, inside: Columns, settings: Settings
) -> ModelProto:
    """Convert an estimator with inputs of the types that it takes inside; the model takes the columns in their own.

    An estimator of one matrix takes columns of numbers joined.
    """
    from skl2onnx import to_onnx

    matrix = matrix_of(inside) if _takes_matrix(estimator) else None
    # a name that is longer than any column's, and an identifier, as skl2onnx renames others
    joined = "joined".ljust(max(map(len, columns)) + 1, "_")
    inputs = inside if matrix is None else {joined: matrix}
    model: ModelProto = to_onnx(
        estimator,
        initial_types=[(name, _type(name, values, context)) for name, values in inputs.items()],
        options=_options(estimator, settings) or None,
        target_opset={"": settings.opset, "ai.onnx.ml": ML_OPSET},
    )
    accept_columns(model, columns)
    return model


def _takes_matrix(estimator: Estimator) -> bool:
    """Return whether an estimator takes all columns as one matrix: none of its parts chooses columns."""
    from sklearn.compose import ColumnTransformer

    return not any(isinstance(part, ColumnTransformer) for part in parts_of(estimator))


def _options(estimator: Estimator, settings: Settings) -> dict[int, dict[str, Any]]:
    """Return options by the estimator that they are for.

    `zipmap` is for the whole pipeline. Each other option is for its last step, or for the parts that know it, such as
    the vectorizers of a pipeline. Vectorizers find words of all languages, as in scikit-learn.
    """
    last = last_step(estimator)
    options: dict[int, dict[str, Any]] = {}
    for name, value in {**_score_options(last), **settings.options}.items():
        knowing = [part for part in parts_of(estimator) if name in known_options(part)]
        for part in [last] if last in knowing or not knowing else knowing:
            options.setdefault(id(part), {})[name] = value
    for part in parts_of(estimator):
        is_free = "tokenexp" in known_options(part) and not {"tokenexp", "separators"} & settings.options.keys()
        if is_free and part.analyzer == "word" and part.token_pattern in TOKENS:
            options.setdefault(id(part), {})["tokenexp"] = TOKENS[part.token_pattern]
    if "zipmap" in known_options(last):
        options.setdefault(id(estimator), {})["zipmap"] = settings.zipmap
    return options


def known_options(estimator: Estimator) -> Collection[str]:
    """Return the names of the options that skl2onnx has for an estimator."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import get_converter

    kind = sklearn_operator_name_map.get(type(estimator))
    return (get_converter(kind).get_allowed_options() or ()) if kind else ()


def _score_options(estimator: Estimator) -> dict[str, Any]:
    """Return options that keep raw scores: skl2onnx negates those of an SVC of two classes and normalizes others."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC, NuSVC

    two = isinstance(estimator, (SVC, NuSVC)) and len(estimator.classes_) == 2  # noqa: PLR2004 - classes
    raw = two or isinstance(estimator, OneVsRestClassifier)
    return {"raw_scores": True} if raw and not hasattr(estimator, "predict_proba") else {}


def _type(name: str, values: NDArray[Any], context: Context) -> Any:
    from skl2onnx.common import data_types as types

    known = {
        "float32": types.FloatTensorType, "float64": types.DoubleTensorType, "int64": types.Int64TensorType,
        "int32": types.Int32TensorType, "bool": types.BooleanTensorType, "object": types.StringTensorType,
    }  # fmt: skip
    if values.dtype.name not in known:
        raise StageFailed(
            context.stage,
            f"an estimator cannot take {name!r} as {values.dtype}",
            hint=f"give it another type: `types: {{{name}: int64}}` beside its path, or in your function",
        )
    return known[values.dtype.name]([None, *values.shape[1:]])
