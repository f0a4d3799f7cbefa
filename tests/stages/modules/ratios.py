"""An estimator of one's own, with its converter."""

from __future__ import annotations

from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx.algebra.onnx_ops import OnnxConcat, OnnxDiv, OnnxGather
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import orun

X, Y = load_iris(return_X_y=True)


class Ratio(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not checked
    """The columns, and the first over the second."""

    def fit(self, x: Any, y: Any = None) -> Ratio:
        del y
        self.n_features_in_ = x.shape[1]
        return self

    def transform(self, x: Any) -> Any:
        return np.c_[x, x[:, :1] / x[:, 1:2]]


def shapes(operator: Any) -> None:
    kind = operator.inputs[0].type
    operator.outputs[0].type = type(kind)([None, kind.shape[1] + 1])


def converter(scope: Any, operator: Any, container: Any) -> None:
    table, opset = operator.inputs[0], container.target_opset
    first, second = (OnnxGather(table, np.array([place]), axis=1, op_version=opset) for place in (0, 1))
    ratio = OnnxDiv(first, second, op_version=opset)
    OnnxConcat(table, ratio, axis=1, op_version=opset, output_names=operator.outputs).add_to(scope, container)


def fitted() -> Any:
    update_registered_converter(Ratio, "Ratio", shapes, converter)
    return make_pipeline(Ratio(), LogisticRegression(max_iter=1000)).fit(X, Y)


class Plain(Ratio):
    """An estimator without a converter."""


def without_converter() -> Any:
    return make_pipeline(Plain(), LogisticRegression(max_iter=1000)).fit(X, Y)


def flowers() -> orun.Dataset:
    return orun.Dataset({"x": X.astype(np.float32)}, Y)
