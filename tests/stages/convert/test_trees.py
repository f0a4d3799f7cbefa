"""Trees of XGBoost, LightGBM and CatBoost, converted and compared with their own predictions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.errors import OrunError
from tests.stages.conftest import MODULES
from tests.stages.modules import trees
from tests.stages.support import StageRun, answers, run_stage
from tests.thin import mostly_slow

LIBRARIES = [
    pytest.param(name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed"))
    for name in trees.NAMES
]


def convert(folder: Path, model: str, data: str, root: Path = MODULES, **params: Any) -> StageRun:
    return run_stage("convert/sklearn", folder, {"model": model, "data": data, **params}, root=root)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("model", "data"),
    mostly_slow(
        [("digits", "digits"), ("two", "digits"), ("pipeline", "digits"), ("bodies", "bodies")],
        ("bodies", "bodies"),
    ),
)
def test_it_answers_what_the_library_answers(tmp_path: Path, library: str, model: str, data: str) -> None:
    run = convert(tmp_path, f"trees.py:{library}_{model}", f"trees.py:{data}")
    assert run.value("agreement") == 1
    own = getattr(trees, f"{library}_{model}")()
    rows = getattr(trees, data)()
    first, *scores = answers(run.model, rows.inputs)
    if data == "bodies":
        np.testing.assert_allclose(first.ravel(), own.predict(rows.inputs["X"]), rtol=1e-4)
        return
    assert first.tolist() == np.ravel(own.predict(rows.inputs["X"])).tolist()
    np.testing.assert_allclose(scores[0], own.predict_proba(rows.inputs["X"]), atol=1e-5)


NAMED = """
import numpy as np
import orun
from xgboost import XGBClassifier

X = np.random.default_rng(0).random((40, 2))

def model():
    made = XGBClassifier(n_estimators=3).fit(X, X[:, 0] > 0.5)
    made.get_booster().feature_names = ["age", "income"]  # as after a fit on a data frame
    return made

def rows():
    return orun.Dataset({"age": X[:, 0], "income": X[:, 1]})
"""


@pytest.mark.skipif(find_spec("xgboost") is None or find_spec("pandas") is None, reason="XGBoost or pandas is missing")
def test_features_of_xgboost_may_have_names(tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(NAMED)
    run = convert(tmp_path, "named.py:model", "named.py:rows", root=tmp_path)
    assert run.value("agreement") == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_that_are_missing(tmp_path: Path, library: str) -> None:
    run = convert(tmp_path, f"trees.py:{library}_bodies", "trees.py:bodies_with_gaps")
    rows = trees.bodies_with_gaps()
    own = trees.regressor(library).predict(rows.inputs["X"])
    np.testing.assert_allclose(answers(run.model, rows.inputs)[0].ravel(), own, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("model", ["digits", "two", "bodies"])
def test_its_own_files(tmp_path: Path, library: str, model: str) -> None:
    own = getattr(trees, f"{library}_{model}")()
    data = "bodies" if model == "bodies" else "digits"
    (tmp_path / "data.py").write_text(f"import sys\nsys.path.insert(0, {str(MODULES)!r})\nfrom trees import {data}\n")
    rows = getattr(trees, data)()
    expected = answers(convert(tmp_path, f"trees.py:{library}_{model}", f"trees.py:{data}").model, rows.inputs)
    for name in save(own, tmp_path, library):
        run = convert(tmp_path, name, f"data.py:{data}", tmp_path)
        assert run.value("agreement") == 1
        for ours, theirs in zip(answers(run.model, rows.inputs), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def save(model: Any, folder: Path, library: str) -> list[str]:
    """Write the model as its library does; return the names of the files."""
    if library == "lightgbm":
        model.booster_.save_model(folder / "model.txt")
        return ["model.txt"]
    names = ["model.json", "model.ubj"] if library == "xgboost" else ["model.cbm"]
    for name in names:
        model.save_model(folder / name)
    return names


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_that_is_no_model(tmp_path: Path, library: str) -> None:
    (tmp_path / "data.py").write_text(
        "import orun\nimport numpy as np\n\ndef rows():\n    return orun.Dataset({'X': np.ones((2, 2), np.float32)})\n"
    )
    suffix = {"xgboost": ".json", "lightgbm": ".txt", "catboost": ".cbm"}[library]
    (tmp_path / f"bad{suffix}").write_text("no model")
    with pytest.raises(OrunError) as caught:
        convert(tmp_path, f"bad{suffix}", "data.py:rows", tmp_path)
    assert caught.value.problem == f"bad{suffix} is no model of {library}"
