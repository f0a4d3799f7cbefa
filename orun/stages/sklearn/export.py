"""A fitted scikit-learn estimator to an ONNX model, with skl2onnx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.said import failing
from orun.stages.warned import warnings_to

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.dataset import Dataset

Array: TypeAlias = NDArray[Any]
Estimator: TypeAlias = Any  # whatever has `predict` or `transform`
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

    from orun.stages.onnx.domains import tidy_domains

    plain = _without_transform(estimator)
    hint = "skl2onnx.supported_converters() lists what can be converted"
    if len({values.dtype.kind for values in data.columns.values()} & set("iuf")) > 1:
        hint += "; it may want numbers of one type: `types: {NAME: float32}` beside the path of the data"
    with (
        failing(context, f"skl2onnx cannot convert the {type(estimator).__name__}", hint),
        warnings_to(context.log),
        _integers_as_flags(),
    ):
        model: ModelProto = to_onnx(
            plain,
            initial_types=[(name, _type(name, values, context)) for name, values in data.columns.items()],
            options=_options(plain, wishes) or None,
            target_opset={"": wishes.opset, "ai.onnx.ml": ML_OPSET},
        )
    tidy_domains(model)
    _name(context, model, wishes.outputs)
    return model


def _options(estimator: Estimator, wishes: Wishes) -> dict[int, dict[str, Any]]:
    """Options as skl2onnx knows them: dictionaries are the pipeline's matter, all else its last step's."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import get_converter

    from sklearn.pipeline import Pipeline

    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    told = {**_scores(last), **wishes.options}
    options: dict[int, dict[str, Any]] = {id(last): told} if told else {}
    kind = sklearn_operator_name_map.get(type(last))
    if kind and "zipmap" in (get_converter(kind).get_allowed_options() or ()):
        options.setdefault(id(estimator), {})["zipmap"] = wishes.zipmap
    return options


def _without_transform(estimator: Estimator) -> Estimator:
    """What it predicts, alone: of a vote skl2onnx refuses a setting, the default, that is for `transform`."""
    from sklearn.ensemble import VotingClassifier
    from sklearn.pipeline import Pipeline

    made = copy(estimator)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        made.steps = [*estimator.steps[:-1], (name, _without_transform(last))]
    elif isinstance(estimator, VotingClassifier):
        made.flatten_transform = False
    return made


def _scores(estimator: Estimator) -> dict[str, Any]:
    """Without this skl2onnx turns the sign of the scores of a machine that tells two classes apart."""
    from sklearn.svm import SVC, NuSVC

    two = isinstance(estimator, (SVC, NuSVC)) and len(estimator.classes_) == 2  # noqa: PLR2004 - classes
    return {"raw_scores": True} if two and not hasattr(estimator, "predict_proba") else {}


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
    from orun.stages.onnx.names import name_values

    found = [value.name for value in model.graph.output]
    if outputs and len(outputs) != len(found):
        raise StageFailed(
            context.stage,
            f"the converted model has {len(found)} outputs, and `outputs` names {len(outputs)}",
            why=f"skl2onnx calls them {', '.join(found)}",
        )
    inputs = [value.name for value in model.graph.input]
    if len({*outputs, *inputs}) < len(outputs) + len(inputs):
        why = f"inputs {', '.join(inputs)}; outputs {', '.join(outputs)}"
        raise StageFailed(context.stage, "inputs and outputs need names that differ", why=why, hint="change `outputs`")
    name_values(model, inputs, outputs or found)
    for value in (*model.graph.input, *model.graph.output):
        axes = value.type.tensor_type.shape.dim
        if len(axes) and not axes[0].HasField("dim_value"):
            axes[0].dim_param = BATCH
