"""Estimators around estimators, as releases have them: searched, frozen, voting, with a target that is turned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import orun
from tests.stages.modules.every_estimator import BODIES, FLOWERS, KINDS, LINES, SUGAR, TEXTS, TREE, VOTERS

NAMES, TWO = np.array(["c", "a", "b"])[KINDS], KINDS == 1
BELLS = ("bells", GaussianNB())
BINS = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
MACHINES = [("machine", SVC()), ("line", LinearSVC()), BELLS]
PENALTIES = {"C": [0.1, 1.0]}


def _cubed(values: Any) -> Any:
    return values**3


def _falling(*_: Any) -> Any:
    return np.arange(4, 0, -1)


OF_FLOWERS: dict[str, Callable[[], Any]] = {
    "bagged_machines": lambda: BaggingClassifier(SVC(), 3, random_state=0).fit(FLOWERS, KINDS),
    "bins_of_a_column": lambda: make_pipeline(
        ColumnTransformer([("bins", BINS, [0]), ("scaled", StandardScaler(), [1, 2, 3])]), LINES
    ).fit(FLOWERS, KINDS),
    "calibrated_frozen": lambda: CalibratedClassifierCV(FrozenEstimator(TREE.fit(FLOWERS, KINDS))).fit(FLOWERS, KINDS),
    "first_column": lambda: SelectKBest(_falling, k=1).fit(FLOWERS, KINDS),
    "fixed_threshold_of_names": lambda: FixedThresholdClassifier(LINES, threshold=0.3).fit(
        FLOWERS, np.where(TWO, "yes", "no")
    ),
    "fixed_threshold_of_scores": lambda: FixedThresholdClassifier(LinearSVC(), threshold=0.3).fit(FLOWERS, TWO),
    "hard_vote": lambda: VotingClassifier(VOTERS).fit(FLOWERS, KINDS),
    "hard_vote_of_machines": lambda: VotingClassifier(MACHINES).fit(FLOWERS, KINDS),
    "hard_vote_of_machines_of_two": lambda: VotingClassifier(MACHINES).fit(FLOWERS, TWO),
    "hard_vote_of_names": lambda: VotingClassifier(VOTERS).fit(FLOWERS, NAMES),
    "logarithms": lambda: make_pipeline(FunctionTransformer(np.log1p), Ridge()).fit(FLOWERS, KINDS),
    "marked_gaps": lambda: SimpleImputer(add_indicator=True).fit(np.where(FLOWERS > 6, np.nan, FLOWERS)),
    "pairs_of_machines": lambda: OneVsOneClassifier(SVC()).fit(FLOWERS, KINDS),
    "quadratic_in_a_vote": lambda: VotingClassifier(
        [("curves", QuadraticDiscriminantAnalysis()), BELLS], voting="soft"
    ).fit(FLOWERS, KINDS),
    "quadratic_of_names": lambda: QuadraticDiscriminantAnalysis().fit(FLOWERS, NAMES),
    "recursive_lines": lambda: make_pipeline(RFE(LINES, n_features_to_select=2), LogisticRegression()).fit(
        FLOWERS, KINDS
    ),
    "rest_of_lines": lambda: OneVsRestClassifier(LinearSVC()).fit(FLOWERS, KINDS),
    "rest_of_lines_of_two": lambda: OneVsRestClassifier(LinearSVC()).fit(FLOWERS, TWO),
    "rest_of_machines": lambda: OneVsRestClassifier(SVC()).fit(FLOWERS, KINDS),
    "scaled_hard_vote": lambda: make_pipeline(StandardScaler(), VotingClassifier(VOTERS)).fit(FLOWERS, KINDS),
    "search_in_a_pipeline": lambda: make_pipeline(StandardScaler(), GridSearchCV(LINES, PENALTIES, cv=2)).fit(
        FLOWERS, KINDS
    ),
    "search_in_a_vote": lambda: VotingClassifier(
        [("found", RandomizedSearchCV(LINES, PENALTIES, n_iter=1, cv=2, random_state=0)), BELLS], voting="soft"
    ).fit(FLOWERS, KINDS),
    "weighted_hard_vote": lambda: VotingClassifier(VOTERS, weights=[1, 2.5, 1]).fit(FLOWERS, KINDS),
    "weighted_soft_vote": lambda: VotingClassifier(VOTERS, voting="soft", weights=[1, 2.5, 1]).fit(FLOWERS, KINDS),
}
OF_BODIES: dict[str, Callable[[], Any]] = {
    "cubed_target": lambda: TransformedTargetRegressor(Ridge(), func=np.cbrt, inverse_func=_cubed).fit(BODIES, SUGAR),
    "exponential": lambda: make_pipeline(
        StandardScaler(), TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1)
    ).fit(BODIES, SUGAR),
    "frozen_search": lambda: FrozenEstimator(GridSearchCV(Lasso(), {"alpha": [0.1]}, cv=2).fit(BODIES, SUGAR)),
    "ranged_target": lambda: TransformedTargetRegressor(SVR(), transformer=MinMaxScaler()).fit(BODIES, SUGAR),
    "robust_target": lambda: TransformedTargetRegressor(Lasso(), transformer=RobustScaler()).fit(BODIES, SUGAR),
    "scaled_target": lambda: TransformedTargetRegressor(SVR(), transformer=StandardScaler()).fit(BODIES, SUGAR),
    "squared_target": lambda: TransformedTargetRegressor(
        make_pipeline(StandardScaler(), Ridge()), func=np.sqrt, inverse_func=np.square
    ).fit(BODIES, SUGAR),
}
ALL = {**OF_FLOWERS, **OF_BODIES}


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in ALL:
        raise AttributeError(name)
    return ALL[name]


def flowers() -> orun.Dataset:
    """Measures of flowers."""
    return orun.Dataset({"X": FLOWERS[::2]})


def bodies() -> orun.Dataset:
    """Ten measurements of each of some people."""
    return orun.Dataset({"X": BODIES[::2]})


def texts() -> orun.Dataset:
    """Short texts, some in capitals."""
    return orun.Dataset({"text": np.char.upper(TEXTS.astype(str)).astype(object)})


def small_letters() -> Any:
    """A classifier of texts that are put into small letters."""
    return make_pipeline(TfidfVectorizer(), LINES).fit(TEXTS, np.arange(len(TEXTS)) % 2)
