"""Fitted estimators of scikit-learn on its own small data sets, and the examples that they are checked on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import orun

X, Y = load_digits(return_X_y=True)
BODIES, SUGAR = load_diabetes(return_X_y=True)
TEXTS = np.array(["good book", "bad film", "good film", "a long book"] * 3, dtype=object)
GERMAN = np.array(
    ["Größe ä 4 passt, müßig!", "schöne Schuhe_2 à Öl", "Maß 12, übel", "œuvre Ärger x"] * 3, dtype=object
)
TOWNS = np.array(["Ulm", "Bonn", "Kiel"] * 5, dtype=object)
AGES = np.arange(15.0)
YEARS = np.arange(20, 80)
FORECASTS = np.stack([SUGAR, SUGAR * 2, -SUGAR], axis=1)
PRICES = np.round(np.random.default_rng(0).normal(200, 50, size=(3000, 3)), 2)
GRADES = (np.round(BODIES[:, 2:6] * 50) / 10).astype(np.float32)
TIMES = 1.7e9 + BODIES[:200, 3] * 1e5  # seconds, where float32 has steps of 128
AWAY = (TIMES % 2000 > 1000).astype(int)


def digits() -> orun.Dataset:
    """Images of digits, `[200, 64]`, that no estimator here was fitted to."""
    return orun.Dataset({"X": X[600:800]}, Y[600:800])


def bodies() -> orun.Dataset:
    """Ten measurements of each of 100 people."""
    return orun.Dataset({"X": BODIES[300:400]})


def prices() -> orun.Dataset:
    """Numbers of two decimals, which float32 rounds."""
    return orun.Dataset({"X": PRICES})


def texts() -> orun.Dataset:
    return orun.Dataset({"text": TEXTS})


def people() -> orun.Dataset:
    """A number and a word of each person."""
    return orun.Dataset({"age": AGES, "town": TOWNS})


def people_without_town() -> orun.Dataset:
    """People of whom every fourth has an empty text for a town, as a file without it is read."""
    return orun.Dataset({"age": AGES, "town": np.where(AGES % 4 == 1, "", TOWNS)})


def people_of_other_towns() -> orun.Dataset:
    """People of whom two live in towns that no estimator was fitted on, and one in none."""
    return orun.Dataset({"age": AGES, "town": np.array([*TOWNS[:-3], "", "Atlantis", "Utopia"], dtype=object)})


def towns() -> orun.Dataset:
    return orun.Dataset({"town": np.asarray(people_without_town().inputs["town"])[:, None]})


def judged() -> orun.Dataset:
    """People with the words that `columns_in_words` says of them, but for the last."""
    labels = columns_in_words().predict(np.array([*zip(AGES, TOWNS, strict=True)], dtype=object))
    return orun.Dataset({"age": AGES.astype(np.float32), "town": TOWNS}, labels=np.array([*labels[:-1], "neither"]))


def columns_in_words() -> Any:
    """A number and a word of each person, and words for its classes."""
    each = ColumnTransformer([("age", StandardScaler(), [0]), ("town", OneHotEncoder(sparse_output=False), [1])])
    rows = np.array([*zip(AGES, TOWNS, strict=True)], dtype=object)
    return make_pipeline(each, LogisticRegression()).fit(rows, np.where(AGES > 6, "old", "young"))


def ages() -> orun.Dataset:
    """The age of each of 100 people, near 1."""
    return orun.Dataset({"X": 1 + BODIES[300:400, :1]})


def measures() -> orun.Dataset:
    """Columns of numbers of three types."""
    return orun.Dataset({"age": YEARS, "weight": BODIES[:60, 2], "woman": BODIES[:60, 1] > 0})


def separated() -> orun.Dataset:
    """Measures of which one is written with separators of thousands."""
    weights = np.array(["12", *["1,234.5"] * 59], dtype=object)
    return orun.Dataset({"age": YEARS, "weight": weights, "woman": BODIES[:60, 1] > 0})


def people_in_texts() -> orun.Dataset:
    return orun.Dataset({"age": np.array(["1", "", *["old"] * 13], dtype=object), "town": TOWNS})


def people_in_numbers() -> orun.Dataset:
    return orun.Dataset({"age": AGES, "town": np.full(len(AGES), 7)})


def visits() -> orun.Dataset:
    """The time of each of 200 visits, and a measurement."""
    return orun.Dataset({"ts": TIMES, "weight": BODIES[:200, 2]})


def forest_of_visits() -> Any:
    rows = np.stack([*visits().inputs.values()], axis=1)
    return make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(rows, AWAY)


def line_of_visits() -> Any:
    rows = np.stack([*visits().inputs.values()], axis=1)
    return make_pipeline(StandardScaler(), LinearRegression()).fit(rows, TIMES - 1.7e9)


def boosted_visits() -> Any:
    """Trees whose thresholds lie between times that are one in float32."""
    rows = np.stack([*visits().inputs.values()], axis=1)
    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2).fit(rows, AWAY)


def votes_in_words() -> Any:
    return LogisticRegression().fit(AGES[:, None], np.where(AGES > 6, "yes", "no"))


def measures_with_units() -> orun.Dataset:
    """Columns whose names are no identifiers, of which skl2onnx makes equal ones."""
    return orun.Dataset({"age (years)": YEARS, "age_(years)": BODIES[:60, 2], "2 / woman": BODIES[:60, 1] > 0})


def years() -> orun.Dataset:
    """A single column of numbers, without an axis for columns."""
    return orun.Dataset({"age": YEARS})


def tree_of_measures() -> Any:
    return DecisionTreeClassifier(max_depth=4, random_state=0).fit(_matrix(), SUGAR[:60] > 150)


def line_of_measures() -> Any:
    return LinearRegression().fit(_matrix(), SUGAR[:60])


def clusters_of_measures() -> Any:
    return KMeans(4, n_init=1, random_state=0).fit(_matrix())


def machine_of_measures() -> Any:
    return SVC().fit(_matrix(), SUGAR[:60] > 150)


def imputed_line_of_measures() -> Any:
    """Its imputer takes columns of several types."""
    each = ColumnTransformer([("all", SimpleImputer(), [0, 1, 2])])
    return make_pipeline(each, LinearRegression()).fit(_matrix(), SUGAR[:60])


def grades() -> orun.Dataset:
    """Four measurements in tenths, as people write them, of each of 442 people."""
    return orun.Dataset({"X": GRADES})


def grades_with_gaps() -> orun.Dataset:
    values = GRADES.copy()
    values[::7, 2] = np.nan
    return orun.Dataset({"X": values})


def scaled_forest() -> Any:
    return make_pipeline(MinMaxScaler(), RandomForestRegressor(20, random_state=0)).fit(GRADES, SUGAR)


def forest_of_products() -> Any:
    forest = RandomForestClassifier(5, random_state=0)
    return make_pipeline(SimpleImputer(), PolynomialFeatures(3), forest).fit(GRADES / 3, SUGAR > 150)


def tree_of_gaps() -> Any:
    """Its imputer also says where values are missing."""
    imputer = SimpleImputer(strategy="constant", fill_value=0, add_indicator=True)
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    return make_pipeline(imputer, tree).fit(grades_with_gaps().inputs["X"], SUGAR > 150)


def gaps_in_forest() -> Any:
    return RandomForestClassifier(5, random_state=0).fit(grades_with_gaps().inputs["X"], SUGAR > 150)


def gaps_in_tree_of_names() -> Any:
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    return tree.fit(grades_with_gaps().inputs["X"], np.where(SUGAR > 150, "high", "low"))


def gaps_in_regression() -> Any:
    return ExtraTreesRegressor(5, random_state=0).fit(grades_with_gaps().inputs["X"], SUGAR)


def gaps_in_two_answers() -> Any:
    forest = RandomForestClassifier(5, random_state=0)
    return forest.fit(grades_with_gaps().inputs["X"], np.stack([SUGAR > 150, SUGAR > 100], axis=1).astype(int))


def gaps_in_outliers() -> Any:
    return IsolationForest(n_estimators=5, random_state=0).fit(grades_with_gaps().inputs["X"])


def gaps_at_prediction_alone() -> Any:
    return RandomForestClassifier(5, random_state=0).fit(GRADES, SUGAR > 150)


def scaled_margins() -> Any:
    return make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(X[:600] / 16, Y[:600] < 5)


def turned_line_of_measures() -> Any:
    each = ColumnTransformer([("all", StandardScaler(), [0, 1, 2])])
    line = make_pipeline(each, Ridge())
    return TransformedTargetRegressor(line, func=np.log1p, inverse_func=np.expm1).fit(_matrix(), SUGAR[:60])


def even_votes() -> Any:
    """Ten trees, so that both classes at times have five tenths, which float32 does not add up to a half."""
    return ExtraTreesClassifier(10, random_state=0).fit(GRADES[::2], SUGAR[::2] > 150)


def scaled_line_of_measures() -> Any:
    return make_pipeline(StandardScaler(), LinearRegression()).fit(_matrix(), SUGAR[:60])


def line_of_years() -> Any:
    return LinearRegression().fit(YEARS[:, None], SUGAR[:60])


def tree_of_names_in_a_frame() -> Any:
    """As fitted on a data frame whose columns were in another order than the data has them."""
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(_matrix()[:, [1, 0]], SUGAR[:60] > 150)
    tree.feature_names_in_ = np.array(["weight", "age"], dtype=object)
    return tree


def tree_of_other_names() -> Any:
    tree = tree_of_names_in_a_frame()
    tree.feature_names_in_ = np.array(["weight", "height"], dtype=object)
    return tree


def tree_of_labels() -> Any:
    """As fitted on a data frame that still held the label."""
    tree = tree_of_names_in_a_frame()
    tree.feature_names_in_ = np.array(["weight", "churn"], dtype=object)
    return tree


def labelled_texts() -> orun.Dataset:
    """A file of texts with a column of labels that nobody named as such."""
    return orun.Dataset({"text": TEXTS, "label": np.arange(len(TEXTS)) % 2})


def _matrix() -> Any:
    return np.stack([*measures().inputs.values()], axis=1).astype(np.float64)


def polynomial() -> Any:
    """A polynomial of degree 9, whose terms are large and cancel."""
    return make_pipeline(PolynomialFeatures(9), LinearRegression()).fit(1 + BODIES[:300, :1], SUGAR[:300])


def pipeline() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=100)).fit(X[:600], Y[:600])


def forest() -> Any:
    return RandomForestClassifier(8, max_depth=6, random_state=0).fit(X[:600], Y[:600])


def boosted() -> Any:
    """Boosted histograms, whose trees know missing values."""
    return HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=7).fit(X[:300], Y[:300])


def tree_of_names() -> Any:
    """A tree whose classes are words."""
    return DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[:600], np.where(Y[:600] < 5, "low", "high"))


def margins() -> Any:
    """A classifier of two classes without probabilities."""
    return LinearSVC(random_state=0).fit(X[:600] / 16, Y[:600] < 5)


def machine() -> Any:
    """A support vector machine of two classes without probabilities."""
    return SVC().fit(X[:300] / 16, Y[:300] < 5)


def machine_of_names() -> Any:
    """Another one, whose classes are words, behind a scaler."""
    return make_pipeline(StandardScaler(), NuSVC(nu=0.2)).fit(X[:300], np.where(Y[:300] < 5, "low", "high"))


def vote() -> Any:
    """Two classifiers, behind a scaler, whose probabilities are averaged."""
    voters = [("lines", LogisticRegression(max_iter=100)), ("bells", GaussianNB(var_smoothing=1e-2))]
    return make_pipeline(StandardScaler(), VotingClassifier(voters, voting="soft")).fit(X[:300], Y[:300])


def quadratic() -> Any:
    random = np.random.default_rng(0)
    return QuadraticDiscriminantAnalysis().fit(random.normal(size=(300, 10)), SUGAR[:300] > 150)


def ridge() -> Any:
    return Ridge().fit(BODIES[:300], SUGAR[:300])


def boosted_prices() -> Any:
    """Of more values than bins: its thresholds are prices, in float64."""
    return HistGradientBoostingRegressor(max_iter=30).fit(PRICES, PRICES.sum(axis=1))


def forest_of_forecasts() -> Any:
    return RandomForestRegressor(3, max_depth=4, random_state=0).fit(BODIES[:300], FORECASTS[:300])


def network_of_forecasts() -> Any:
    network = MLPRegressor(hidden_layer_sizes=(8,), max_iter=5, random_state=0).fit(BODIES[:300], FORECASTS[:300])
    return TransformedTargetRegressor(network, transformer=StandardScaler()).fit(BODIES[:300], FORECASTS[:300])


def bag_of_forecasts() -> Any:
    return BaggingRegressor(Ridge(), 2).fit(BODIES[:300], FORECASTS[:300])


def regression_tree() -> Any:
    return DecisionTreeRegressor(max_depth=4, random_state=0).fit(BODIES[:300], SUGAR[:300])


def neighbours() -> Any:
    return KNeighborsRegressor(3).fit(BODIES[:50], SUGAR[:50])


def weighed_neighbours() -> Any:
    return KNeighborsRegressor(3, weights="distance").fit(BODIES[:50], SUGAR[:50])


def weighed_neighbours_of_names() -> Any:
    return KNeighborsClassifier(3, weights="distance").fit(BODIES[:50], np.where(SUGAR[:50] > 150, "high", "low"))


def components() -> Any:
    return PCA(3, random_state=0).fit(X[:200])


def clusters() -> Any:
    """Clusters with the distances to them."""
    return KMeans(4, n_init=1, random_state=0).fit(X[:200])


def narrow_clusters() -> Any:
    """Clusters of values in float32, which takes no others."""
    return KMeans(4, n_init=1, random_state=0).fit(X[:200].astype(np.float32))


def two_answers() -> Any:
    """A classifier that tells two things of each image."""
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    return MultiOutputClassifier(tree).fit(X[:300], np.stack([Y[:300] < 5, Y[:300] % 2 == 1], axis=1).astype(int))


def answers_of_two_and_ten_classes() -> Any:
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    return MultiOutputClassifier(tree).fit(X[:300], np.stack([Y[:300] < 5, Y[:300]], axis=1).astype(int))


def forest_of_two_and_ten_classes() -> Any:
    forest = RandomForestClassifier(3, max_depth=4, random_state=0)
    return forest.fit(X[:300], np.stack([Y[:300] < 5, Y[:300]], axis=1).astype(int))


def two_answers_of_a_forest() -> Any:
    forest = RandomForestClassifier(3, max_depth=4, random_state=0)
    return forest.fit(X[:300], np.stack([Y[:300] < 5, Y[:300] % 2 == 1], axis=1).astype(int))


def two_answers_of_neighbours() -> Any:
    return KNeighborsClassifier(3).fit(X[:300], np.stack([Y[:300] < 5, Y[:300] % 2 == 1], axis=1).astype(int))


def processes() -> Any:
    return GaussianProcessClassifier().fit(BODIES[:60], SUGAR[:60] > 150)


def own_function() -> Any:
    return make_pipeline(FunctionTransformer(np.cbrt), Ridge()).fit(BODIES[:300], SUGAR[:300])


def isotonic() -> Any:
    voters = CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2)
    return make_pipeline(StandardScaler(), voters).fit(X[:300], Y[:300] < 5)


def outliers() -> Any:
    return IsolationForest(n_estimators=5, random_state=0).fit(BODIES[:300])


def opinions() -> Any:
    return make_pipeline(TfidfVectorizer(lowercase=False), LogisticRegression()).fit(TEXTS, np.arange(len(TEXTS)) % 2)


def german() -> orun.Dataset:
    return orun.Dataset({"text": GERMAN})


def german_opinions() -> Any:
    """A classifier of texts with umlauts, one-letter words, digits and underscores."""
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()).fit(GERMAN, np.arange(12) % 2)


def german_counts() -> Any:
    """Words of one letter count, too."""
    pattern = r"(?u)\b\w+\b"
    return CountVectorizer(token_pattern=pattern).fit(GERMAN)


def columns() -> Any:
    split = ColumnTransformer([("age", StandardScaler(), [0]), ("town", OneHotEncoder(), [1])])
    table = np.stack([AGES.astype(object), TOWNS], axis=1)
    return make_pipeline(split, LogisticRegression()).fit(table, np.arange(15) % 2)


def columns_that_ignore_other_towns() -> Any:
    encoder = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    split = ColumnTransformer([("age", StandardScaler(), [0]), ("town", encoder, [1])])
    table = np.stack([AGES.astype(object), np.where(AGES % 4 == 1, np.array(np.nan, object), TOWNS)], axis=1)
    return make_pipeline(split, LogisticRegression()).fit(table, np.arange(15) % 2)


def scaler_of_frames() -> Any:
    """A pipeline as joblib reads it that yields data frames."""
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_, scaler.n_features_in_ = BODIES.mean(axis=0), BODIES.std(axis=0), BODIES.shape[1]
    return make_pipeline(scaler).set_output(transform="pandas")


def imputed() -> Any:
    encoder = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    split = ColumnTransformer([("age", StandardScaler(), [0]), ("town", encoder, [1])])
    table = np.stack([AGES.astype(object), TOWNS], axis=1)
    return make_pipeline(split, LogisticRegression()).fit(table, np.arange(15) % 2)


def imputed_without_town() -> Any:
    return _fit_without_town(make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()))


def encoded_without_town() -> Any:
    return _fit_without_town(OneHotEncoder(handle_unknown="ignore"))


def numbered_without_town() -> Any:
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    return _fit_without_town(OrdinalEncoder(**unknown, encoded_missing_value=-2))


def numbered_without_town_as_nan() -> Any:
    """Boosted trees, which take the NaN that the encoder leaves."""
    towns = np.where(AGES % 4 == 1, np.array(np.nan, object), TOWNS)[:, None]
    numbers = OrdinalEncoder()
    return make_pipeline(numbers, HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=1)).fit(
        towns, AGES % 4 == 1
    )


def _fit_without_town(encoder: Any) -> Any:
    """A pipeline that was fitted with NaN for a missing town, as pandas reads it."""
    split = ColumnTransformer([("age", StandardScaler(), [0]), ("town", encoder, [1])])
    towns = np.where(AGES % 4 == 1, np.array(np.nan, object), TOWNS)
    return make_pipeline(split, LogisticRegression()).fit(np.stack([AGES.astype(object), towns], axis=1), AGES % 4 == 1)


def unfitted() -> Any:
    return Ridge()


def number() -> int:
    return 4


def pickled() -> bytes:
    import pickle

    return pickle.dumps(ridge())
