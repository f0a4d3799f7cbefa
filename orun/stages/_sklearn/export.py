"""A fitted scikit-learn estimator to an ONNX model, with skl2onnx."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.stages._sklearn.plain import Estimator, inside, plainly
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.dataset import Dataset

Array: TypeAlias = NDArray[Any]
ML_OPSET = 3  # of trees and other models that are no neural networks; converters differ in whether they know 4
BATCH = "batch"  # the axis of the examples


@dataclass(frozen=True)
class Wishes:
    """How to convert: operator set, whether probabilities become dictionaries, skl2onnx's options, output names."""

    opset: int
    zipmap: bool
    options: Mapping[str, Any]
    outputs: Sequence[str]


@dataclass(frozen=True, eq=False)
class Table:
    """What the estimator takes: for each input one array `[n, ...]`, as ONNX takes it."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def feed(self, rows: slice) -> dict[str, Array]:
        """Some rows for the ONNX model."""
        return {name: values[rows] for name, values in self.columns.items()}

    def matrix(self, estimator: Estimator, *, widened: bool = True) -> Any:
        """All rows as scikit-learn takes them, numbers in float64 unless they are not to be `widened`."""
        wide = {name: _wide(values) if widened else values for name, values in self.columns.items()}
        if len(wide) == 1:
            return next(iter(wide.values()))
        if hasattr(estimator, "feature_names_in_"):
            import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]  # it was fitted with it

            return pd.DataFrame({name: values.reshape(len(values)) for name, values in wide.items()})
        parts = [values.reshape(len(values), -1) for values in wide.values()]
        same = all(part.dtype.kind in "iubf" for part in parts)
        return np.concatenate([part if same else part.astype(object) for part in parts], axis=1)


def _wide(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def learned(estimator: Estimator) -> int:
    """Bytes, in float32, of the arrays of numbers that an estimator has, or those that it is made of."""
    total, seen = 0, set[int]()
    pending: list[Any] = [estimator]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += 4 * one.size if one.dtype.kind in "iuf" else 0
        elif isinstance(one, Mapping):
            pending.extend(one.values())
        elif isinstance(one, (list, tuple)):
            pending.extend(one)
        elif hasattr(one, "get_params"):
            pending.extend(vars(one).values())
    return total


def table(context: Context, dataset: Dataset, precision: str) -> Table:
    """The inputs of a dataset, numbers with a fraction in that precision; one of several inputs is a column `[n, 1]`.

    Raises:
        StageFailed: when the examples differ in shape.
    """
    columns: dict[str, Array] = {}
    for name, values in dataset.inputs.items():
        if not isinstance(values, np.ndarray):
            raise StageFailed(context.stage, f"the examples of {name!r} differ in shape, and an estimator takes one")
        typed = values.astype(precision) if values.dtype.kind == "f" else values
        typed = typed.astype(object) if typed.dtype.kind in "US" else typed
        columns[name] = typed[:, None] if typed.ndim == 1 and len(dataset.inputs) > 1 else typed
    return Table(columns)


def export(context: Context, estimator: Estimator, data: Table, wishes: Wishes) -> ModelProto:
    """The ONNX model, each operator set named once, its first axis `batch`.

    Raises:
        StageFailed: when skl2onnx cannot convert the estimator.
    """
    from skl2onnx import to_onnx

    from orun.stages._graph.domains import tidy_domains
    from orun.stages._sklearn.converters import register

    register()
    plain = plainly(estimator)
    _require_zipmap(context, plain, wishes)
    hint = "skl2onnx.supported_converters() lists what can be converted"
    if len({values.dtype.kind for values in data.columns.values()} & set("iuf")) > 1:
        hint += "; it may want numbers of one type: `types: {NAME: float32}` beside the path of the data"
    if not _is_fitted(estimator):  # of one without a state this need not be true, so that it refuses nothing
        hint = "it does not look fitted: return model.fit(X, y)"
    what = f"skl2onnx cannot convert the {type(estimator).__name__}"
    with failing(context, what, hint), warnings_to(context.log), _integers_as_flags(), _lacking(context, what):
        model: ModelProto = to_onnx(
            plain,
            initial_types=[(name, _type(name, values, context)) for name, values in data.columns.items()],
            options=_options(plain, wishes) or None,
            target_opset={"": wishes.opset, "ai.onnx.ml": ML_OPSET},
        )
    if _only_labels(plain):
        del model.graph.output[1:]
    tidy_domains(model)
    _name(context, model, wishes.outputs)
    return model


def _is_fitted(estimator: Estimator) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    except TypeError:  # a class of the user's
        return True
    return True


def _options(estimator: Estimator, wishes: Wishes) -> dict[int, dict[str, Any]]:
    """Options as skl2onnx knows them: dictionaries are the pipeline's matter, each other its last step's.

    One that the last step does not know is for what is inside the estimator, such as the vectorizers of a pipeline.
    """
    from sklearn.pipeline import Pipeline

    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    options: dict[int, dict[str, Any]] = {}
    for name, value in {**_scores(last), **wishes.options}.items():
        knowing = [one for one in inside(estimator) if name in _known(one)]
        for one in [last] if last in knowing or not knowing else knowing:
            options.setdefault(id(one), {})[name] = value
    if "zipmap" in _known(last):
        options.setdefault(id(estimator), {})["zipmap"] = wishes.zipmap
    return options


def _known(estimator: Estimator) -> Collection[str]:
    """Names of the options that skl2onnx has for an estimator."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import get_converter

    kind = sklearn_operator_name_map.get(type(estimator))
    return (get_converter(kind).get_allowed_options() or ()) if kind else ()


def _require_zipmap(context: Context, estimator: Estimator, wishes: Wishes) -> None:
    from sklearn.pipeline import Pipeline

    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if "zipmap" in wishes.options:
        hint = "`zipmap: true` beside `options`, or nothing"
        raise StageFailed(context.stage, "`zipmap` is a parameter of its own, not one of `options`", hint=hint)
    if wishes.zipmap and "zipmap" not in _known(last):
        raise StageFailed(context.stage, f"`zipmap` needs probabilities, and a {type(last).__name__} has none")


def _scores(estimator: Estimator) -> dict[str, Any]:
    """Without this skl2onnx turns the sign of a machine's scores of two classes, and norms those against the rest."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC, NuSVC

    two = isinstance(estimator, (SVC, NuSVC)) and len(estimator.classes_) == 2  # noqa: PLR2004 - classes
    raw = two or isinstance(estimator, OneVsRestClassifier)
    return {"raw_scores": True} if raw and not hasattr(estimator, "predict_proba") else {}


def _only_labels(estimator: Estimator) -> bool:
    """Whether scikit-learn tells no probabilities where skl2onnx yields such: shares of a vote by heads."""
    from sklearn.ensemble import VotingClassifier
    from sklearn.pipeline import Pipeline

    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return isinstance(last, VotingClassifier) and last.voting == "hard"


def _type(name: str, values: Array, context: Context) -> Any:
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


@contextmanager
def _lacking(context: Context, what: str) -> Iterator[None]:
    """Name the estimator, or the one inside, that has no converter, in place of skl2onnx's general advice."""
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    try:
        yield
    except (MissingConverter, MissingShapeCalculator) as error:
        named = re.search(r"<class '(?:\w+\.)*(\w+)'>", str(error))
        why = f"it has no converter for {named[1]}" if named else str(error)
        raise StageFailed(context.stage, what, why=why, hint="take another, or leave it out of the model") from error


@contextmanager
def _integers_as_flags() -> Iterator[None]:
    """skl2onnx 1.20 puts truth values among the integers of a tree, and protobuf 7 takes integers alone."""
    from skl2onnx.common import _container

    given = _container.make_node

    def make_node(*words: Any, **attributes: Any) -> Any:
        plain = {
            name: [int(one) if isinstance(one, (bool, np.bool_)) else one for one in value]
            if isinstance(value, list)
            else value
            for name, value in attributes.items()
        }
        return given(*words, **plain)

    _container.make_node = make_node
    try:
        yield
    finally:
        _container.make_node = given


def _name(context: Context, model: ModelProto, outputs: Sequence[str]) -> None:
    from orun.stages._graph.names import name_values

    found = [value.name for value in model.graph.output]
    if outputs and len(outputs) != len(found):
        raise StageFailed(
            context.stage,
            f"the converted model has {len(found)} outputs, and `outputs` names {len(outputs)}",
            why=f"skl2onnx calls them {', '.join(found)}",
        )
    inputs = [value.name for value in model.graph.input]
    if "" in outputs:
        raise StageFailed(context.stage, "outputs need names", why="one of `outputs` is empty")
    if len({*outputs, *inputs}) < len(outputs) + len(inputs):
        why = f"inputs {', '.join(inputs)}; outputs {', '.join(outputs)}"
        raise StageFailed(context.stage, "inputs and outputs need names that differ", why=why, hint="change `outputs`")
    name_values(model, inputs, outputs or found)
    for value in (*model.graph.input, *model.graph.output):
        axes = value.type.tensor_type.shape.dim
        if len(axes) and not axes[0].HasField("dim_value"):
            axes[0].dim_param = BATCH
