"""Gradient-boosted trees of XGBoost, LightGBM and CatBoost: their converters in skl2onnx, and their model files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orun.stages._data.packages import need
from orun.stages._sklearn.plain import Estimator, iter_parts

CLASSIFIER: Mapping[str, list[Any]] = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
ML_DOMAIN = "ai.onnx.ml"
TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")


def register_trees(estimator: Estimator) -> None:
    """Let skl2onnx use the converters of the libraries of trees that an estimator is made with."""
    libraries = {type(part).__module__.partition(".")[0] for part in iter_parts(estimator)}
    for library in sorted(libraries & CONVERTERS.keys()):
        CONVERTERS[library]()


def _register_xgboost() -> None:
    import xgboost

    need("onnxmltools", "converting XGBoost")
    _register("XGBoost", (xgboost.XGBClassifier, xgboost.XGBRFClassifier), _convert_xgboost, classify=True)
    regressors = (xgboost.XGBRegressor, xgboost.XGBRFRegressor, xgboost.XGBRanker)
    _register("XGBoost", regressors, _convert_xgboost, classify=False)


def _register_lightgbm() -> None:
    import lightgbm

    need("onnxmltools", "converting LightGBM")
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

    _register("LightGbm", (lightgbm.LGBMClassifier,), convert_lightgbm, classify=True)
    _register("LightGbm", (lightgbm.LGBMRegressor, lightgbm.LGBMRanker), convert_lightgbm, classify=False)


def _register_catboost() -> None:
    import catboost

    _register("CatBoost", (catboost.CatBoostClassifier,), _convert_catboost, classify=True, parser=_parse_classifier)
    _register("CatBoost", (catboost.CatBoostRegressor, catboost.CatBoostRanker), _convert_catboost, classify=False)


CONVERTERS: Mapping[str, Callable[[], None]] = {
    "xgboost": _register_xgboost,
    "lightgbm": _register_lightgbm,
    "catboost": _register_catboost,
}


def _register(
    prefix: str,
    kinds: tuple[type, ...],
    convert: Callable[..., None],
    *,
    classify: bool,
    parser: Callable[..., Any] | None = None,
) -> None:
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )

    shapes = calculate_linear_classifier_output_shapes if classify else calculate_linear_regressor_output_shapes
    for kind in kinds:
        options: dict[str, Any] = {**CLASSIFIER} if classify else {"split": None}
        if parser:
            options["zipmap"] = [False]  # skl2onnx's own parser makes dictionaries of probabilities
        update_registered_converter(kind, f"{prefix}{kind.__name__}", shapes, convert, options=options, parser=parser)


def _convert_xgboost(scope: Any, operator: Any, container: Any) -> None:
    """Write the trees with features by their places, as onnxmltools wants them: a table's columns have other names."""
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost

    operator.raw_operator.get_booster().feature_names = None
    convert_xgboost(scope, operator, container)


def _parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare labels and scores of a classifier that skl2onnx does not know as one: it is no `ClassifierMixin`."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    del custom_parsers
    texts = model.classes_.dtype.kind in "OUS"
    operator = scope.declare_local_operator(sklearn_operator_name_map[type(model)], model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", StringTensorType() if texts else Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", FloatTensorType()))
    return operator.outputs


def _convert_catboost(scope: Any, operator: Any, container: Any) -> None:
    """Write the trees that CatBoost's own exporter makes, without its dictionaries of probabilities."""
    from catboost.utils import convert_to_onnx_object
    from onnx import helper

    del scope
    graph = convert_to_onnx_object(operator.raw_operator).graph
    (node,) = (node for node in graph.node if node.op_type in TREES)
    container.add_node(
        node.op_type,
        [operator.inputs[0].full_name],
        [output.full_name for output in operator.outputs],
        op_domain=ML_DOMAIN,
        **{item.name: helper.get_attribute_value(item) for item in node.attribute},
    )


def read_xgboost(path: Path) -> Estimator:
    """Read what XGBoost wrote as .json or .ubj, as an estimator of scikit-learn's interface."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    kinds = {"binary": xgboost.XGBClassifier, "multi": xgboost.XGBClassifier, "rank": xgboost.XGBRanker}
    estimator = kinds.get(objective.partition(":")[0], xgboost.XGBRegressor)()
    estimator.load_model(path)
    return estimator


def read_lightgbm(path: Path) -> Estimator:
    """Read the text of a LightGBM booster as an estimator of scikit-learn's interface; classes count from 0."""
    import lightgbm
    import numpy as np
    from sklearn.preprocessing import LabelEncoder

    booster = lightgbm.Booster(model_file=str(path))
    model = booster.dump_model(num_iteration=1)  # all trees have one objective
    objective = str(model.get("objective", "")).partition(" ")[0]
    is_classifier = objective in ("binary", "multiclass", "multiclassova")
    kind = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
    estimator = kind(objective=objective or None)
    fitted = {
        "_Booster": booster,
        "fitted_": True,
        "_n_features": booster.num_feature(),
        "_n_features_in": booster.num_feature(),
        "_objective": objective,
    }
    if is_classifier:
        classes = np.arange(max(model["num_class"], 2))
        fitted |= {"_classes": classes, "_n_classes": len(classes), "_le": LabelEncoder().fit(classes)}
    vars(estimator).update(fitted)
    return estimator


def read_catboost(path: Path) -> Estimator:
    """Read what CatBoost wrote as .cbm, as a classifier or regressor."""
    import catboost

    model = catboost.CatBoost().load_model(str(path))
    kind = catboost.CatBoostClassifier if len(model.classes_) else catboost.CatBoostRegressor
    return kind().load_model(str(path))


READERS: Mapping[str, Callable[[Path], Estimator]] = {
    ".json": read_xgboost,
    ".ubj": read_xgboost,
    ".txt": read_lightgbm,
    ".cbm": read_catboost,
}
