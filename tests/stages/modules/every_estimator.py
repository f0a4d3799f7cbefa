"""Every estimator of scikit-learn, fitted on few examples of the kind that it takes: `fit_NAME`, `examples_NAME`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

import orun

FLOWERS, KINDS = (values[::3] for values in load_iris(return_X_y=True))
BODIES, SUGAR = (values[::10] for values in load_diabetes(return_X_y=True))
WORDS = np.array([["a", "x"], ["b", "y"], ["a", "z"]] * 16, dtype=object)
TEXTS = np.array(["good book", "bad film", "good film", "a long book"] * 3, dtype=object)
LINES, TREE = LogisticRegression(), DecisionTreeClassifier(max_depth=3, random_state=0)
VOTERS = [("lines", LINES), ("bells", GaussianNB()), ("tree", TREE)]
GUESSERS = [("lines", LinearRegression()), ("ridge", Ridge())]
KINDS_OF = dict(all_estimators())


def _each(names: str, **options: Any) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(names.split(), options)


# What an estimator must be given, or is given so that it is quickly fitted.
GIVEN: Mapping[str, Mapping[str, Any]] = {
    **_each(
        "ClassifierChain FixedThresholdClassifier TunedThresholdClassifierCV MultiOutputClassifier OneVsOneClassifier "
        "OneVsRestClassifier OutputCodeClassifier RFE RFECV SelectFromModel SelfTrainingClassifier "
        "SequentialFeatureSelector",
        estimator=LINES,
    ),
    **_each("MultiOutputRegressor RegressorChain", estimator=Ridge()),
    **_each(
        "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor "
        "GradientBoostingClassifier GradientBoostingRegressor AdaBoostClassifier AdaBoostRegressor "
        "IsolationForest RandomTreesEmbedding BaggingClassifier BaggingRegressor",
        n_estimators=3,
    ),
    **_each("HistGradientBoostingClassifier HistGradientBoostingRegressor", max_iter=3),
    **_each(
        "GaussianMixture BayesianGaussianMixture GaussianRandomProjection SparseRandomProjection CCA "
        "NeighborhoodComponentsAnalysis PLSCanonical PLSSVD PCA FactorAnalysis TruncatedSVD NMF MiniBatchNMF FastICA",
        n_components=2,
    ),
    **_each(
        "LatentDirichletAllocation DictionaryLearning MiniBatchDictionaryLearning MiniBatchSparsePCA",
        n_components=2,
        max_iter=2,
    ),
    **_each("MLPClassifier MLPRegressor", hidden_layer_sizes=[8], max_iter=20),
    **_each("KMeans MiniBatchKMeans", n_clusters=3, n_init=1),
    "ColumnTransformer": {"transformers": [("scaled", StandardScaler(), [0, 1])]},
    "FeatureUnion": {"transformer_list": [("scaled", StandardScaler())]},
    "FrozenEstimator": {"estimator": LogisticRegression().fit(FLOWERS, KINDS)},
    "GridSearchCV": {"estimator": LINES, "param_grid": {"C": [0.1, 1.0]}, "cv": 2},
    "RandomizedSearchCV": {"estimator": LINES, "param_distributions": {"C": [0.1, 1.0]}, "n_iter": 1, "cv": 2},
    "GenericUnivariateSelect": {"mode": "k_best", "param": 2},
    "SelectKBest": {"k": 2},
    "KNeighborsTransformer": {"n_neighbors": 3},
    "LogisticRegressionCV": {"Cs": 2, "cv": 2, "l1_ratios": (0.0,), "use_legacy_attributes": False},
    "Pipeline": {"steps": [("scaled", StandardScaler()), ("lines", LINES)]},
    "QuantileTransformer": {"n_quantiles": 10},
    "SparseCoder": {"dictionary": np.eye(4)},
    "StackingClassifier": {"estimators": VOTERS, "cv": 2},
    "StackingRegressor": {"estimators": GUESSERS, "cv": 2},
    "TheilSenRegressor": {"max_subpopulation": 50},
    "TSNE": {"perplexity": 5, "max_iter": 250},
    "VotingClassifier": {"estimators": VOTERS, "voting": "soft"},
    "VotingRegressor": {"estimators": GUESSERS},
}
SEVERAL = ("MultiOutputRegressor", "RegressorChain", "PLSCanonical", "CCA", "PLSSVD")  # answers at once


def __getattr__(name: str) -> Callable[[], Any]:
    part, _, estimator = name.partition("_")
    if part not in ("fit", "examples") or estimator not in KINDS_OF:
        raise AttributeError(name)
    return lambda: fitted(estimator) if part == "fit" else orun.Dataset({"X": data_of(estimator)[0][::2]})


def fitted(name: str) -> Any:
    """An estimator of that class, fitted."""
    result = KINDS_OF[name](**GIVEN.get(name, {}))
    if "random_state" in result.get_params(deep=False):
        result.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few examples and few rounds
        return result.fit(*(values for values in data_of(name) if values is not None))


def data_of(name: str) -> tuple[Any, Any]:
    """What an estimator of that class is fitted to, and what it is to answer."""
    special: Mapping[str, tuple[Any, Any]] = {
        "CategoricalNB": (np.round(FLOWERS), KINDS),
        "CountVectorizer": (TEXTS, None),
        "FixedThresholdClassifier": (FLOWERS, KINDS == 1),
        "HashingVectorizer": (TEXTS, None),
        "IsotonicRegression": (BODIES[:, :1], SUGAR),
        "KernelCenterer": (FLOWERS @ FLOWERS.T, None),
        "LabelBinarizer": (KINDS, None),
        "LabelEncoder": (KINDS, None),
        "OneHotEncoder": (WORDS, None),
        "OrdinalEncoder": (WORDS, None),
        "TargetEncoder": (WORDS, np.arange(len(WORDS)) / 7),
        "TfidfVectorizer": (TEXTS, None),
        "TunedThresholdClassifierCV": (FLOWERS, KINDS == 1),
    }
    if name in special:
        return special[name]
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        return FLOWERS, np.stack([KINDS == 1, KINDS == 2], axis=1).astype(int)
    if name.startswith("MultiTask") or name in SEVERAL:
        return BODIES, np.stack([SUGAR, BODIES[:, 0]], axis=1)
    regressor = is_regressor(KINDS_OF[name](**GIVEN.get(name, {})))
    return (BODIES, SUGAR) if regressor else (FLOWERS, KINDS)
