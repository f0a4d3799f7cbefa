"""Made-up examples of scikit-learn estimators: from what their parts have learned."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from orun.measure.dataset import Dataset
from orun.scaffold.data_text import format_data
from orun.scaffold.model_facts import ColumnFact, ModelFacts
from orun.scaffold.sklearn_columns import list_columns
from orun.stages._sklearn.export import tabulate

ROWS = 60
RANDOM = np.random.default_rng(0)
AGES = RANDOM.normal(40, 10, ROWS)
CITIES = RANDOM.choice(["Bonn", "Oslo", "Rome"], ROWS)
ROOMS = RANDOM.integers(1, 4, ROWS)
TEXTS = [" ".join(RANDOM.choice(["bad", "fast", "good"], 4)) for _ in range(ROWS)]
LABELS = (AGES > 40).astype(int)
MIXED = np.stack([AGES.astype(object), CITIES.astype(object), ROOMS.astype(object)], axis=1)


def examples_of(estimator: Any) -> tuple[Dataset, str]:
    """The dataset that the made-up file yields, and the text of the file."""
    columns, is_matrix = list_columns(estimator)
    text = format_data("forest.yaml", ModelFacts("sklearn", "forest.joblib", columns=columns, is_matrix=is_matrix))
    scope: dict[str, Any] = {}
    exec(compile(text, "forest_data.py", "exec"), scope)  # noqa: S102 - the text is ours
    dataset: Dataset = scope["examples"]()
    return dataset, text


def predict(estimator: Any, dataset: Dataset) -> Any:
    """What the estimator answers to the examples."""
    return estimator.predict(tabulate(dataset.inputs, "float32").to_matrix(estimator))


def mixed() -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(), StandardScaler()), [0]),
            ("city", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), slice(1, 2)),
            ("rooms", OrdinalEncoder(), [False, False, True]),
        ]
    )


def test_an_array_of_numbers_and_texts() -> None:
    estimator = make_pipeline(mixed(), RandomForestClassifier(5, random_state=0)).fit(MIXED, LABELS)
    columns, is_matrix = list_columns(estimator)
    mean, deviation = (float(f"{value:.3g}") for value in (AGES.mean(), AGES.std()))
    assert not is_matrix
    assert (columns[0].center, columns[0].spread) == pytest.approx((mean, deviation), abs=0.1)
    assert columns[1:] == (
        ColumnFact("x1", "category", ("Bonn", "Oslo", "Rome")), ColumnFact("x2", "category", (1, 2, 3)),
    )  # fmt: skip
    dataset, text = examples_of(estimator)
    assert "'x1': random.choice(['Bonn', 'Oslo', 'Rome'], n)," in text
    assert set(predict(estimator, dataset)) == {0, 1}  # both classes: the numbers are where the model decides


def test_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": AGES, "city": CITIES, "rooms": ROOMS, "review": TEXTS})
    parts = ColumnTransformer([
        ("number", MinMaxScaler(), ["age"]), ("city", OneHotEncoder(), ["city"]), ("text", TfidfVectorizer(), "review"),
    ], remainder="passthrough")  # fmt: skip
    search = GridSearchCV(make_pipeline(parts, LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    estimator = search.fit(frame, LABELS)
    columns, is_matrix = list_columns(estimator)
    assert (is_matrix, [(column.name, column.kind) for column in columns]) == (
        False,
        [("age", "number"), ("city", "category"), ("rooms", "number"), ("review", "text")],
    )
    assert columns[3].values == ("bad", "fast", "good")
    dataset, _ = examples_of(estimator)
    assert len(predict(estimator, dataset)) == 64


@pytest.mark.parametrize(
    ("parts", "rows"),
    [
        ((OneHotEncoder(),), np.stack([CITIES, CITIES[::-1]], axis=1).astype(object)),
        ((OrdinalEncoder(),), np.stack([ROOMS, ROOMS], axis=1)),
        (
            (
                FeatureUnion(
                    [
                        ("scaled", StandardScaler()),
                        ("bins", KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")),
                    ]
                ),
            ),
            AGES[:, None],
        ),
        ((TfidfVectorizer(),), TEXTS),
        ((HashingVectorizer(n_features=8),), TEXTS),
        ((), np.stack([1000 * AGES, AGES], axis=1)),
    ],
    ids=["texts in a matrix", "integers in a matrix", "union", "words", "hashed words", "trees alone"],
)
def test_other_inputs(parts: tuple[Any, ...], rows: Any) -> None:
    estimator = make_pipeline(*parts, RandomForestClassifier(5, random_state=0)).fit(rows, LABELS)
    dataset, _ = examples_of(estimator)
    assert list(dataset.inputs) == ["X"]
    assert len(predict(estimator, dataset)) == 64


def test_thresholds_of_trees_tell_where_numbers_are() -> None:
    rows = np.stack([1000 * AGES, AGES], axis=1)
    for estimator in (
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    ):
        vote = VotingClassifier([("one", estimator)], voting="soft").fit(rows, LABELS)
        dataset, _ = examples_of(vote)
        assert set(predict(vote, dataset)) == {0, 1}


class Dates(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A transformer of a user, which says nothing about its columns."""

    def fit(self, rows: Any, labels: Any = None) -> Dates:
        del labels
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, rows: Any) -> Any:
        return np.array([[float(str(day)[:4])] for (day,) in rows])


def test_what_nothing_describes_is_a_guess() -> None:
    rows = np.stack([AGES.astype(object), np.array(["2026-11-26"] * ROWS, object)], axis=1)
    parts = ColumnTransformer([("number", FunctionTransformer(), [0]), ("day", Dates(), [1])])
    estimator = make_pipeline(parts, LogisticRegression()).fit(rows, LABELS)
    columns, _ = list_columns(estimator)
    assert [column.doubt for column in columns] == ["", "Dates"]
    _, text = examples_of(estimator)
    assert "# a guess: Dates does not say what it takes" in text


@pytest.mark.skipif(find_spec("catboost") is None, reason="CatBoost is not installed")
@pytest.mark.parametrize("names", [["age", "rooms"], None])
def test_columns_of_catboost(names: list[str] | None) -> None:
    """It keeps their names in an attribute of its own, and after a fit on a data frame no number of them."""
    from catboost import CatBoostClassifier, Pool

    pool = Pool(np.stack([AGES, ROOMS], axis=1), LABELS, feature_names=names)
    model = CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False).fit(pool)
    columns, is_matrix = list_columns(model)
    assert ([column.name for column in columns], is_matrix) == (names or ["x0", "x1"], names is None)
