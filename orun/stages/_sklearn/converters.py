"""Converters for estimators that skl2onnx 1.20 lacks or converts wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common._apply_operation import apply_identity, apply_reshape
from skl2onnx.common._registration import get_converter
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
    guess_proto_type,
)
from skl2onnx.common.shape_calculator import (
    calculate_linear_classifier_output_shapes,
    calculate_linear_regressor_output_shapes,
)
from skl2onnx.operator_converters.common import concatenate_variables
from skl2onnx.operator_converters.feature_selection import convert_sklearn_feature_selection
from skl2onnx.operator_converters.function_transformer import convert_sklearn_function_transformer
from skl2onnx.operator_converters.imputer_op import convert_sklearn_imputer
from skl2onnx.operator_converters.linear_classifier import convert_sklearn_linear_classifier
from skl2onnx.operator_converters.multilayer_perceptron import convert_sklearn_mlp_regressor
from skl2onnx.operator_converters.ordinal_encoder import convert_sklearn_ordinal_encoder
from skl2onnx.operator_converters.polynomial_features import convert_sklearn_polynomial_features
from skl2onnx.operator_converters.quadratic_discriminant_analysis import (
    convert_quadratic_discriminant_analysis_classifier,
)
from skl2onnx.shape_calculators.feature_selection import calculate_sklearn_select
from skl2onnx.shape_calculators.function_transformer import calculate_sklearn_function_transformer_output_shapes
from skl2onnx.shape_calculators.imputer import calculate_sklearn_imputer_output_shapes
from skl2onnx.shape_calculators.ordinal_encoder import calculate_sklearn_ordinal_encoder_output_shapes
from skl2onnx.shape_calculators.polynomial_features import calculate_sklearn_polynomial_features
from skl2onnx.shape_calculators.quadratic_discriminant_analysis import calculate_quadratic_discriminant_analysis_shapes
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

Node = Callable[..., str]

CLASSIFIER: Mapping[str, list[Any]] = {
    "zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True],
}  # fmt: skip
FUNCTIONS: Mapping[Callable[..., Any], Callable[[str, Node], str]] = {
    np.exp: lambda value, node: node("Exp", value),
    np.expm1: lambda value, node: node("Sub", node("Exp", value), 1.0),
    np.log: lambda value, node: node("Log", value),
    np.log1p: lambda value, node: node("Log", node("Add", value, 1.0)),
    np.sqrt: lambda value, node: node("Sqrt", value),
    np.square: lambda value, node: node("Mul", value, value),
    np.abs: lambda value, node: node("Abs", value),
}


def register() -> None:
    """Let skl2onnx use these converters in this process."""
    selectors = {SequentialFeatureSelector: "OrunSequentialFeatureSelector"} | {
        kind: alias
        for kind, alias in sklearn_operator_name_map.items()
        if get_converter(alias)._fct is convert_sklearn_feature_selection  # noqa: SLF001 - skl2onnx has no public name
    }
    for kind, alias, shapes, convert in (
        (TransformedTargetRegressor, "OrunTransformedTargetRegressor", _declare_target_shapes, _write_inverted_target),
        (FunctionTransformer, "SklearnFunctionTransformer", _declare_function_shapes, _write_function),
        (SimpleImputer, "SklearnSimpleImputer", _declare_imputed_shapes, _impute),
        (OrdinalEncoder, "SklearnOrdinalEncoder", calculate_sklearn_ordinal_encoder_output_shapes, _write_ordinal),
        (PolynomialFeatures, "SklearnPolynomialFeatures", calculate_sklearn_polynomial_features, _write_polynomial),
        (MLPRegressor, "SklearnMLPRegressor", calculate_linear_regressor_output_shapes, _write_network),
        *((kind, alias, calculate_sklearn_select, _select) for kind, alias in selectors.items()),
    ):
        update_registered_converter(kind, alias, shapes, convert)
    machine = "SklearnLinearSVC"  # of which skl2onnx refuses its own option, in a pipeline
    allowed = {**get_converter(machine).get_allowed_options(), "zipmap": [False]}
    classify, quadratic = calculate_linear_classifier_output_shapes, "SklearnQuadraticDiscriminantAnalysis"
    for kind, alias, shapes, convert, options in (
        (LinearSVC, machine, classify, convert_sklearn_linear_classifier, allowed),
        (QuadraticDiscriminantAnalysis, quadratic, _declare_quadratic_shapes, _write_quadratic, CLASSIFIER),
        (FixedThresholdClassifier, "OrunFixedThresholdClassifier", classify, _write_threshold, CLASSIFIER),
        (TunedThresholdClassifierCV, "OrunTunedThresholdClassifierCV", classify, _write_threshold, CLASSIFIER),
    ):
        update_registered_converter(kind, alias, shapes, convert, options={**options})


class _Writer:
    """Writer of nodes whose inputs are names of values or numbers."""

    def __init__(self, scope: Any, container: Any, kind: Any) -> None:
        self._scope, self._container, self._element = scope, container, guess_proto_type(kind)

    def __call__(self, operation: str, *inputs: Any, **attributes: Any) -> str:
        result: str = self._scope.get_unique_variable_name(operation.lower())
        name = self._scope.get_unique_operator_name(operation)
        self._container.add_node(operation, [self._name(value) for value in inputs], result, name=name, **attributes)
        return result

    def _name(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        values = np.ravel(value)
        element = guess_proto_type(Int64TensorType()) if values.dtype.kind == "i" else self._element
        name: str = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, element, [values.size], values.tolist())
        return name


def _select(scope: Any, operator: Any, container: Any) -> None:
    """Write the selected columns; skl2onnx writes zeros if only the first is selected."""
    node = _Writer(scope, container, operator.inputs[0].type)
    chosen = node("Gather", operator.inputs[0].full_name, operator.raw_operator.get_support(indices=True), axis=1)
    apply_identity(scope, chosen, operator.outputs[0].full_name, container)


def _declare_imputed_shapes(operator: Any) -> None:
    calculate_sklearn_imputer_output_shapes(operator)
    shape = operator.outputs[0].type.shape
    if operator.raw_operator.add_indicator and shape[1] is not None:
        shape[1] += len(operator.raw_operator.indicator_.features_)


def _impute(scope: Any, operator: Any, container: Any) -> None:
    """Write an imputer of float64 or with an indicator, neither of which the operator of ONNX knows."""
    imputer, kind = operator.raw_operator, type(operator.inputs[0].type)
    if kind is not DoubleTensorType and not imputer.add_indicator:
        convert_sklearn_imputer(scope, operator, container)
        return
    if kind not in (DoubleTensorType, FloatTensorType):
        raise NotImplementedError("an indicator of missing values, of which integers and texts have none")
    statistics = imputer.statistics_.astype(np.float64)
    if np.isnan(statistics).any():
        raise NotImplementedError("a column without values")
    node = _Writer(scope, container, operator.outputs[0].type)
    value, missing = concatenate_variables(scope, operator.inputs, container), imputer.missing_values
    is_missing = node("IsNaN", value) if np.isnan(missing) else node("Equal", value, missing)
    filled = node("Where", is_missing, statistics, value)
    if imputer.add_indicator:
        indicated = node("Gather", is_missing, np.asarray(imputer.indicator_.features_, np.int64), axis=1)
        marks = node("Cast", indicated, to=guess_proto_type(operator.outputs[0].type))
        filled = node("Concat", filled, marks, axis=1)
    apply_identity(scope, filled, operator.outputs[0].full_name, container)


def _write_ordinal(scope: Any, operator: Any, container: Any) -> None:
    """Write the number of missing texts, which skl2onnx takes for those of the text `nan`."""
    encoder, (answer,) = operator.raw_operator, operator.outputs
    places = encoder._missing_indices  # noqa: SLF001 - scikit-learn has no public name
    if not places or operator.inputs[0].type.__class__ is not StringTensorType:
        convert_sklearn_ordinal_encoder(scope, operator, container)
        return
    if not isinstance(answer.type, (FloatTensorType, DoubleTensorType)):
        raise NotImplementedError("missing texts in an OrdinalEncoder of integers: leave out its `dtype`")
    numbers = scope.declare_local_variable("numbers", answer.type)
    changed = SimpleNamespace(
        inputs=operator.inputs, outputs=[numbers], output_full_names=[numbers.full_name], raw_operator=encoder
    )
    convert_sklearn_ordinal_encoder(scope, changed, container)
    node = _Writer(scope, container, answer.type)
    missing = [float(places.get(column, np.nan)) for column in range(len(encoder.categories_))]  # NaN equals nothing
    is_missing = node("Equal", numbers.full_name, missing)
    filled = node("Where", is_missing, float(encoder.encoded_missing_value), numbers.full_name)
    apply_identity(scope, filled, answer.full_name, container)


def _write_polynomial(scope: Any, operator: Any, container: Any) -> None:
    """Write products of columns of float64, for which skl2onnx makes nodes of mixed types."""
    if not isinstance(operator.inputs[0].type, DoubleTensorType):
        convert_sklearn_polynomial_features(scope, operator, container)
        return
    node = _Writer(scope, container, operator.outputs[0].type)
    powers = operator.raw_operator.powers_  # [products, columns]
    factors = [np.repeat(np.arange(len(row)), row) for row in powers]
    degree = max(map(len, factors))
    filler = powers.shape[1]  # the place of a column of ones, which fills up shorter products
    places = np.array([[*row, *[filler] * (degree - len(row))] for row in factors])
    value = operator.inputs[0].full_name
    extended = node("Concat", value, node("Pow", node("Gather", value, np.array([0]), axis=1), 0.0), axis=1)
    shape = np.array([-1, *places.shape])
    gathered = node("Reshape", node("Gather", extended, places, axis=1), shape)
    multiplied = node("ReduceProd", gathered, np.array([2]), keepdims=0)
    apply_identity(scope, multiplied, operator.outputs[0].full_name, container)


def _write_network(scope: Any, operator: Any, container: Any) -> None:
    """Write the numbers of an example side by side; skl2onnx writes one below the other."""
    network, (answer,) = operator.raw_operator, operator.outputs
    column = scope.declare_local_variable("column", type(answer.type)([None, 1]))
    changed = SimpleNamespace(inputs=operator.inputs, output_full_names=[column.full_name], raw_operator=network)
    convert_sklearn_mlp_regressor(scope, changed, container)
    apply_reshape(scope, column.full_name, answer.full_name, container, desired_shape=(-1, network.n_outputs_))


def _declare_function_shapes(operator: Any) -> None:
    if operator.raw_operator.func not in FUNCTIONS:
        calculate_sklearn_function_transformer_output_shapes(operator)
    elif len(operator.inputs) > 1:
        raise NotImplementedError("a function of several inputs: give it one, or put it into a ColumnTransformer")
    else:
        operator.outputs[0].type = operator.inputs[0].type


def _write_function(scope: Any, operator: Any, container: Any) -> None:
    """Write a NumPy function over all columns; skl2onnx has none."""
    function = operator.raw_operator.func
    if function not in FUNCTIONS:
        convert_sklearn_function_transformer(scope, operator, container)
        return
    node = _Writer(scope, container, operator.outputs[0].type)
    result = FUNCTIONS[function](operator.inputs[0].full_name, node)
    apply_identity(scope, result, operator.outputs[0].full_name, container)


def _declare_quadratic_shapes(operator: Any) -> None:
    calculate_quadratic_discriminant_analysis_shapes(operator)
    operator.outputs[0].type = type(operator.outputs[0].type)([None])


def _write_quadratic(scope: Any, operator: Any, container: Any) -> None:
    """Write labels as `[n]`; those of skl2onnx are `[1, n]`."""
    label, scores = operator.outputs
    row = scope.declare_local_variable("labels", type(label.type)([1, None]))
    changed = SimpleNamespace(
        inputs=operator.inputs,
        input_full_names=operator.input_full_names,
        outputs=[row, scores],
        raw_operator=operator.raw_operator,
    )
    convert_quadratic_discriminant_analysis_classifier(scope, changed, container)
    apply_reshape(scope, row.full_name, label.full_name, container, desired_shape=(-1,))


def _write_threshold(scope: Any, operator: Any, container: Any) -> None:
    """Write the label by the probability of the second class; skl2onnx ignores thresholds."""
    estimator, (label, scores) = operator.raw_operator, operator.outputs
    if not hasattr(estimator.estimator_, "predict_proba") or estimator.response_method == "decision_function":
        raise NotImplementedError("its threshold is one of scores, and only those of probabilities are converted")
    if getattr(estimator, "pos_label", None) not in (None, estimator.classes_[1]):
        raise NotImplementedError("its threshold is one of the first class")
    threshold = getattr(estimator, "best_threshold_", getattr(estimator, "threshold", "auto"))
    probabilities = _convert_inner(scope, operator, estimator.estimator_, [label, scores])[1]
    node = _Writer(scope, container, scores.type)
    chance = node("Gather", probabilities, np.array([1]), axis=1)
    beyond = node("Not", node("Less", chance, 0.5 if threshold == "auto" else threshold))
    place = node("Reshape", node("Cast", beyond, to=guess_proto_type(Int64TensorType())), np.array([-1]))
    classes = scope.get_unique_variable_name("classes")
    texts = estimator.classes_.dtype.kind in "OUS"
    values = [str(label).encode() if texts else int(label) for label in estimator.classes_]
    container.add_initializer(classes, guess_proto_type(label.type), [len(values)], values)
    apply_identity(scope, node("Gather", classes, place), label.full_name, container)
    apply_identity(scope, probabilities, scores.full_name, container)


def _declare_target_shapes(operator: Any) -> None:
    """Declare the answer of a regressor, which may take several inputs."""
    answer = DoubleTensorType if isinstance(operator.inputs[0].type, DoubleTensorType) else FloatTensorType
    operator.outputs[0].type = answer([None, 1])


def _write_inverted_target(scope: Any, operator: Any, container: Any) -> None:
    """Write the prediction of the regressor, inverted as `inverse_func` or the `transformer` does."""
    (answer,) = operator.outputs
    (predicted,) = _convert_inner(scope, operator, operator.raw_operator.regressor_, [answer])
    node = _Writer(scope, container, answer.type)
    inverted = _invert(operator.raw_operator.transformer_, predicted, node)
    apply_identity(scope, inverted, answer.full_name, container)


def _convert_inner(scope: Any, operator: Any, estimator: Any, outputs: list[Any]) -> list[str]:
    """Declare the conversion of an inner estimator; return the names of its results, of the types of these outputs."""
    inner = scope.declare_local_operator(sklearn_operator_name_map[type(estimator)], estimator)
    inner.inputs = operator.inputs
    results = [scope.declare_local_variable(f"inner_{value.raw_name}", value.type) for value in outputs]
    for result in results:
        inner.outputs.append(result)
    return [result.full_name for result in results]


def _invert(transformer: Any, value: str, node: Node) -> str:
    if isinstance(transformer, FunctionTransformer) and transformer.inverse_func is None:
        return value
    if isinstance(transformer, FunctionTransformer) and transformer.inverse_func in FUNCTIONS:
        return FUNCTIONS[transformer.inverse_func](value, node)
    if isinstance(transformer, MinMaxScaler) and not transformer.clip:
        return node("Div", node("Sub", value, transformer.min_), transformer.scale_)
    if isinstance(transformer, MaxAbsScaler):
        return node("Mul", value, transformer.scale_)
    if isinstance(transformer, (StandardScaler, RobustScaler)):
        scale = transformer.scale_
        shift = transformer.mean_ if isinstance(transformer, StandardScaler) else transformer.center_
        scaled = value if scale is None else node("Mul", value, scale)
        return scaled if shift is None else node("Add", scaled, shift)
    inverse = getattr(transformer, "inverse_func", None) or transformer
    known = ", ".join(f"np.{function.__name__}" for function in FUNCTIONS)
    raise NotImplementedError(f"its target is turned back by {inverse}, which is none of {known} and plain scalers")
