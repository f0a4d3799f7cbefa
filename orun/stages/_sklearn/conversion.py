"""One conversion by skl2onnx: types of the inputs, options, and the forms in which it takes columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper
from sklearn.compose import ColumnTransformer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from orun.stages._graph.names import make_unique
from orun.stages._graph.nodes import set_items
from orun.stages._sklearn.plain import Estimator, has_trees, iter_parts, take_last_step
from orun.stages.contract import Context

Columns: TypeAlias = Mapping[str, NDArray[Any]]
NUMBERS = "iufb"  # kinds of types of NumPy
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
    """Convert a pipeline with its steps but the last in float64; None if there are none, or one cannot be converted.

    What the last step takes is cast to float32, as trees do.
    """
    from onnxruntime import InferenceSession
    from skl2onnx.sklapi import CastTransformer

    kinds = {values.dtype.kind for values in columns.values()}
    is_wide = any(values.dtype == np.float64 for values in columns.values())
    if not isinstance(estimator, Pipeline) or not hasattr(estimator, "predict") or is_wide or not kinds & {*NUMBERS}:
        return None
    *steps, last = [(name, step) for name, step in estimator.steps if step not in (None, "passthrough")]
    if not steps:
        return None
    pipeline = Pipeline([*steps, ("as_float32", CastTransformer(dtype=np.float32)), last])
    wide = {
        name: values.astype(np.float64, copy=False) if values.dtype.kind in NUMBERS else values
        for name, values in columns.items()
    }
    try:
        model = _convert_as(context, pipeline, columns, wide, settings)
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

    chooses_columns = any(isinstance(part, ColumnTransformer) for part in iter_parts(estimator))
    matrix = None if chooses_columns else _build_matrix(inside)
    # a name that is longer than any column's, and an identifier, as skl2onnx renames others
    joined = "joined".ljust(max(map(len, columns)) + 1, "_")
    inputs = inside if matrix is None else {joined: matrix}
    model: ModelProto = to_onnx(
        estimator,
        initial_types=[(name, _choose_type(name, values, context)) for name, values in inputs.items()],
        options=_build_options(estimator, settings) or None,
        target_opset={"": settings.opset, "ai.onnx.ml": ML_OPSET},
    )
    _accept_columns(model, columns)
    return model


def _build_matrix(columns: Columns) -> NDArray[Any] | None:
    """Return the first example of several columns `[n, k]` as a matrix `[1, ...]`; None if some are no numbers.

    Its type is that of floats, if one column has it, else int64.
    """
    numeric = all(values.dtype.kind in NUMBERS and values.ndim == 2 for values in columns.values())  # noqa: PLR2004 - axes
    if len(columns) == 1 or not numeric:
        return None
    kind = next((values.dtype for values in columns.values() if values.dtype.kind == "f"), np.dtype(np.int64))
    return np.concatenate([values[:1].astype(kind) for values in columns.values()], axis=1)


def _accept_columns(model: ModelProto, columns: Columns) -> None:
    """Let a model take columns in their own types: it casts those that differ, and joins all if it takes a matrix.

    The model's inputs are the columns `[n, ...]`, in this order and by any names, or a matrix of them.
    """
    declared = list(model.graph.input)
    is_matrix = len(declared) < len(columns)
    used = {name for node in model.graph.node for name in (*node.input, *node.output)}
    inputs, nodes, parts = [], [], []
    for place, values in enumerate(columns.values()):
        inner = declared[0 if is_matrix else place]
        own, wanted = helper.np_dtype_to_tensor_dtype(values.dtype), inner.type.tensor_type.elem_type
        if own == wanted and not is_matrix:
            inputs.append(inner)
            continue
        parts.append(make_unique(inner.name, used) if is_matrix else inner.name)
        name = make_unique("column", used)
        inputs.append(helper.make_tensor_value_info(name, own, [None, *values.shape[1:]]))
        nodes.append(helper.make_node("Cast", [name], [parts[-1]], to=wanted))
    if is_matrix:
        nodes.append(helper.make_node("Concat", parts, [declared[0].name], axis=1))
    set_items(model.graph.node, (*nodes, *model.graph.node))
    set_items(model.graph.input, inputs)


def _build_options(estimator: Estimator, settings: Settings) -> dict[int, dict[str, Any]]:
    """Return options by the estimator that they are for.

    `zipmap` is for the whole pipeline. Each other option is for its last step, or for the parts that know it, such as
    the vectorizers of a pipeline. Vectorizers find words of all languages, as in scikit-learn.
    """
    last = take_last_step(estimator)
    options: dict[int, dict[str, Any]] = {}
    for name, value in {**_choose_score_options(last), **settings.options}.items():
        knowing = [part for part in iter_parts(estimator) if name in list_options(part)]
        for part in [last] if last in knowing or not knowing else knowing:
            options.setdefault(id(part), {})[name] = value
    for part in iter_parts(estimator):
        is_free = "tokenexp" in list_options(part) and not {"tokenexp", "separators"} & settings.options.keys()
        if is_free and part.analyzer == "word" and part.token_pattern in TOKENS:
            options.setdefault(id(part), {})["tokenexp"] = TOKENS[part.token_pattern]
    if "zipmap" in list_options(last):
        options.setdefault(id(estimator), {})["zipmap"] = settings.zipmap
    return options


def list_options(estimator: Estimator) -> Collection[str]:
    """Return the names of the options that skl2onnx has for an estimator."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import get_converter

    kind = sklearn_operator_name_map.get(type(estimator))
    return (get_converter(kind).get_allowed_options() or ()) if kind else ()


def _choose_score_options(estimator: Estimator) -> dict[str, Any]:
    """Return options that keep raw scores: skl2onnx negates those of an SVC of two classes and normalizes others."""
    two = isinstance(estimator, (SVC, NuSVC)) and len(estimator.classes_) == 2  # noqa: PLR2004 - classes
    raw = two or isinstance(estimator, OneVsRestClassifier)
    return {"raw_scores": True} if raw and not hasattr(estimator, "predict_proba") else {}


def _choose_type(name: str, values: NDArray[Any], context: Context) -> Any:
    from skl2onnx.common import data_types as types

    known = {
        "float32": types.FloatTensorType, "float64": types.DoubleTensorType, "int64": types.Int64TensorType,
        "int32": types.Int32TensorType, "bool": types.BooleanTensorType, "object": types.StringTensorType,
    }  # fmt: skip
    if values.dtype.name not in known:
        raise context.failed(
            f"an estimator cannot take {name!r} as {values.dtype}",
            hint=f"give it another type: `types: {{{name}: int64}}` beside its path, or in your function",
        )
    return known[values.dtype.name]([None, *values.shape[1:]])
