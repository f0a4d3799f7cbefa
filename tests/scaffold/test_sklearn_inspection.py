"""Facts that `orun init` asks a fitted estimator for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from orun.errors import MissingPackages, UsageError
from orun.scaffold.inspection import inspect_model
from orun.scaffold.sklearn_inspection import inspect_estimator

ROWS = 40
NUMBERS = np.random.default_rng(0).normal(size=(ROWS, 2))
CITIES = np.array(["Bonn", "Oslo"] * (ROWS // 2), object)
MIXED = np.column_stack([NUMBERS.astype(object), CITIES])
LABELS = np.arange(ROWS) % 2


def columns(*, handle_unknown: str) -> ColumnTransformer:
    """The first number imputed, and the second not."""
    return ColumnTransformer(
        [
            ("imputed", SimpleImputer(), [0]),
            ("scaled", StandardScaler(), [1]),
            ("city", OneHotEncoder(handle_unknown=handle_unknown), [2]),
        ]
    )


@pytest.mark.parametrize(
    ("estimator", "rows", "takes_missing"),
    [
        (make_pipeline(columns(handle_unknown="ignore"), LogisticRegression()), MIXED, [True, False, True]),
        (make_pipeline(columns(handle_unknown="error"), LogisticRegression()), MIXED, [True, False, False]),
        (HistGradientBoostingClassifier(max_iter=2), NUMBERS, [True, True]),
        (LogisticRegression(), NUMBERS, [False, False]),
        (make_pipeline(CountVectorizer(), LogisticRegression()), CITIES, [True]),
    ],
    ids=["unknown texts allowed", "unknown texts refused", "trees", "linear", "words"],
)
def test_the_columns_in_which_an_estimator_takes_missing_values(
    estimator: Any, rows: Any, takes_missing: list[bool]
) -> None:
    facts = inspect_estimator("net.py:load", estimator.fit(rows, LABELS))
    assert facts.refusal == ""
    assert [column.takes_missing for column in facts.columns] == takes_missing


def test_an_estimator_of_a_data_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not that the estimator takes no missing values."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    imputer = SimpleImputer().fit(NUMBERS)
    imputer.feature_names_in_ = np.array(["age", "amount"], dtype=object)
    with pytest.raises(MissingPackages) as caught:
        inspect_estimator("net.py:load", imputer)
    assert caught.value.packages == ["pandas"]
    assert str(caught.value) == (
        "the SimpleImputer, which was fitted on a data frame, needs pandas, which is not installed\n"
        "  hint: install pandas"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"input_model": {"type": "HfModel"}, "passes": {}}',
            [
                "is a workflow of Olive, not a model",
                "hint: name its model: orun init MODEL; docs/migrate/olive.md says which stages its passes are",
            ],
        ),
        (
            '{"model_type": "bert"}',
            [
                "is not a model of XGBoost",
                "it is no JSON with a `learner`",
                "hint: booster.save_model('other.json')",
            ],
        ),
    ],
)
def test_a_file_of_json_that_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text(content)
    with pytest.raises(UsageError) as caught:
        inspect_model("other.json", Path(), (), trust=False)
    assert str(caught.value).splitlines() == [f"other.json {message[0]}", *(f"  {line}" for line in message[1:])]
