"""Pipelines of scikit-learn as ONNX models, by orun and by skl2onnx alone: usual steps before usual models.

    python -m benchmarks.sklearn_pipelines

The columns are integers, tenths, halves and words, as forms have them: many values lie on the thresholds of trees. orun
converts a pipeline if `convert/sklearn` passes, which compares every example. The model of skl2onnx alone is compared
in the same way: labels are equal, and probabilities within 0.0001 + 0.001 times their value.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from onnxruntime import InferenceSession
from skl2onnx import to_onnx
from skl2onnx.common import data_types as types
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from xgboost import XGBClassifier

from benchmarks.spent import machine, table
from benchmarks.stage_context import make_context
from orun.errors import OrunError
from orun.stages._sklearn.compat import write_booleans_as_integers
from orun.stages._sklearn.trees import register_trees
from orun.stages.convert import sklearn as convert
from orun.stages.params import build

EXAMPLES = 400
NUMBERS, TOWN, CODE = [0, 1, 2], [3], [4]  # places of the columns
OPSETS = {"": 20, "ai.onnx.ml": 3}
TOLERANCE = (1e-4, 1e-3)  # absolute and relative
HEAD = (
    "steps before the model",
    "pipelines",
    "orun converts",
    "skl2onnx alone converts",
    "of these, with other answers",
    "examples with other answers",
)
KINDS = {"i": types.Int64TensorType, "f": types.FloatTensorType, "U": types.StringTensorType}
Columns = Mapping[str, NDArray[Any]]


def columns_of(random: np.random.Generator) -> Columns:
    """Return an age, an income in tenths, a grade in halves, a town and a code of each example."""
    return {
        "age": random.integers(18, 70, EXAMPLES),
        "income (k)": (random.normal(50, 20, EXAMPLES).round(1)).astype(np.float32),
        "grade": (random.integers(2, 12, EXAMPLES) / 2).astype(np.float32),
        "home town": random.choice(["Ulm", "Bonn", "Kiel"], EXAMPLES),
        "code": random.integers(0, 4, EXAMPLES),
    }


def steps() -> dict[str, Any]:
    """Return the steps before the model, by name."""
    encoded = (OneHotEncoder(), TOWN)
    return {
        "scale": make_column_transformer((StandardScaler(), NUMBERS)),
        "scale, encode": make_column_transformer((StandardScaler(), NUMBERS), encoded),
        "scale, encode words and codes": make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), TOWN + CODE)),  # noqa: E501
        "scale to 0..1, number the words": make_column_transformer((MinMaxScaler(), NUMBERS), (OrdinalEncoder(), TOWN)),
        "scale one, keep two, encode": make_column_transformer((StandardScaler(), [1]), ("passthrough", [0, 2]), encoded),  # noqa: E501
        "impute, scale, encode": make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS), encoded),  # noqa: E501
        "scale, products": make_column_transformer((make_pipeline(StandardScaler(), PolynomialFeatures(2)), NUMBERS)),
        "scale by quartiles": make_column_transformer((RobustScaler(), NUMBERS)),
        "to quantiles": make_column_transformer((QuantileTransformer(n_quantiles=20), NUMBERS)),
        "to a normal shape": make_column_transformer((PowerTransformer(), NUMBERS)),
    }  # fmt: skip


def models() -> Sequence[Any]:
    """Return the models, not fitted."""
    forest = RandomForestClassifier(15, random_state=0)
    return (
        forest,
        ExtraTreesClassifier(10, random_state=0),
        GradientBoostingClassifier(n_estimators=10),
        HistGradientBoostingClassifier(max_iter=10),
        XGBClassifier(n_estimators=10),
        LGBMClassifier(n_estimators=10, verbose=-1),
        AdaBoostClassifier(n_estimators=5),
        CalibratedClassifierCV(RandomForestClassifier(5, random_state=0)),
        VotingClassifier([("forest", forest), ("line", LogisticRegression(max_iter=300))], voting="soft"),
        StackingClassifier([("forest", forest), ("boosted", XGBClassifier(n_estimators=3))]),
        LogisticRegression(max_iter=300),
        MLPClassifier(max_iter=30, random_state=0),
    )


def by_orun(folder: Path, pipeline: Any, columns: Columns) -> bool:
    """Return whether `convert/sklearn` converts the pipeline, which compares it with scikit-learn."""
    joblib.dump(pipeline, folder / "model.joblib")
    np.savez(folder / "data.npz", allow_pickle=False, **columns)
    params = build(convert.Params, {"model": "model.joblib", "trust_pickle": True, "data": "data.npz"})
    (folder / "output").mkdir(exist_ok=True)
    context = make_context("convert", folder, folder / "output")
    try:
        convert.run(context, params)
    except OrunError:
        return False
    return True


def by_skl2onnx(pipeline: Any, columns: Columns, matrix: NDArray[Any]) -> float | None:
    """Return the share of the examples with other answers than scikit-learn's; None if it does not run."""
    declared = [(name, KINDS[values.dtype.kind]([None, 1])) for name, values in columns.items()]
    register_trees(pipeline)
    try:
        with write_booleans_as_integers():
            options = {id(pipeline): {"zipmap": False}}
            model = to_onnx(pipeline, initial_types=declared, options=options, target_opset=OPSETS)
        session = InferenceSession(model.SerializeToString())
        names = [item.name for item in session.get_inputs()]  # which skl2onnx has changed
        values = (values.astype(object) if values.dtype.kind == "U" else values for values in columns.values())
        labels, scores = session.run(None, {name: item[:, None] for name, item in zip(names, values, strict=True)})[:2]
    except Exception:  # noqa: BLE001 - the libraries raise errors of any class
        return None
    right = pipeline.predict_proba(matrix)
    off = (np.abs(scores - right) > TOLERANCE[0] + TOLERANCE[1] * np.abs(right)).any(axis=1)
    return float(np.mean(off | (labels != pipeline.predict(matrix))))


def rows(folder: Path) -> Iterator[Sequence[str]]:
    """Yield the row of each kind of steps."""
    random = np.random.default_rng(0)
    columns = columns_of(random)
    matrix = np.stack([values.astype(object) for values in columns.values()], axis=1)
    target = (columns["age"] > 40) ^ (columns["income (k)"] > 55) ^ (columns["home town"] == "Ulm")  # noqa: PLR2004
    for name, before in steps().items():
        pipelines = [make_pipeline(before, model).fit(matrix, target.astype(int)) for model in models()]
        converted = sum(by_orun(folder, pipeline, columns) for pipeline in pipelines)
        shares = [by_skl2onnx(pipeline, columns, matrix) for pipeline in pipelines]
        known = [share for share in shares if share is not None]
        wrong = [share for share in known if share]
        spread = f"{min(wrong):.1%} to {max(wrong):.0%}" if wrong else ""
        yield (name, str(len(pipelines)), str(converted), str(len(known)), str(len(wrong)), spread)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    logging.disable()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        print(f"{machine()}\n\n{table(HEAD, list(rows(Path(folder))))}")


if __name__ == "__main__":
    main()
