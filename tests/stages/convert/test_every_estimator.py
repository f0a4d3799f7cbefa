"""convert/sklearn on every estimator that scikit-learn has, and on those that others are put into: right, or refused.

`DictVectorizer` takes dictionaries and `MultiLabelBinarizer` sets, which no dataset holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orun.errors import OrunError
from tests.stages.conftest import MODULES
from tests.stages.modules import every_estimator, odd_estimators
from tests.stages.support import run_stage
from tests.thin import mostly_slow

pytestmark = pytest.mark.filterwarnings("ignore:Class PassiveAggressive:FutureWarning")
UNFED = {"DictVectorizer", "MultiLabelBinarizer"}
NO_ANSWER = [
    "AgglomerativeClustering", "ClassicalMDS", "DBSCAN", "EmpiricalCovariance", "GraphicalLasso", "GraphicalLassoCV",
    "HDBSCAN", "KernelDensity", "LedoitWolf", "LocalOutlierFactor", "MDS", "MinCovDet", "NearestNeighbors", "OAS",
    "OPTICS", "ShrunkCovariance", "SpectralBiclustering", "SpectralClustering", "SpectralCoclustering",
    "SpectralEmbedding", "TSNE",
]  # fmt: skip
NO_CONVERTER = [
    "AdditiveChi2Sampler", "AffinityPropagation", "BernoulliRBM", "Birch", "BisectingKMeans", "CCA", "ClassifierChain",
    "DictionaryLearning", "DummyClassifier", "DummyRegressor", "EllipticEnvelope", "FactorAnalysis", "FastICA",
    "FeatureAgglomeration", "HashingVectorizer", "Isomap", "IsotonicRegression", "KernelRidge", "LabelPropagation",
    "LabelSpreading", "LatentDirichletAllocation", "LocallyLinearEmbedding", "MeanShift",
    "MiniBatchDictionaryLearning", "MiniBatchNMF", "MiniBatchSparsePCA", "MissingIndicator", "NMF", "NearestCentroid",
    "Nystroem", "OutputCodeClassifier", "PLSCanonical", "PLSSVD", "PatchExtractor", "PolynomialCountSketch",
    "RBFSampler", "RadiusNeighborsTransformer", "RegressorChain", "SelfTrainingClassifier", "SkewedChi2Sampler",
    "SparseCoder", "SparsePCA", "SparseRandomProjection", "SplineTransformer",
]  # fmt: skip
CANNOT, DISAGREES = "skl2onnx cannot convert the", "the converted model disagrees with scikit-learn in output"
REFUSED: Mapping[str, str] = {
    **{
        name: f"every_estimator.py:fit_{name} must be a fitted estimator of scikit-learn\n"
        f"  a {name} has neither `predict` nor `transform`"
        for name in NO_ANSWER
    },
    **{
        name: f"{CANNOT} {name}\n  it has no converter for {name}\n  hint: take another, or leave it out of the model"
        for name in NO_CONVERTER
    },
    "FeatureHasher": f"{CANNOT} FeatureHasher\n  InvalidInputTypeException: ",  # it takes words
    "GaussianProcessClassifier": f"{CANNOT} GaussianProcessClassifier\n  NotImplementedError: Only binary ",
    "KNeighborsTransformer": f"{DISAGREES} 'variable'",  # of neighbours that are as near another one
    "QuantileTransformer": f"{DISAGREES} 'variable'",  # of values that are there several times another place
    "RadiusNeighborsClassifier": "ONNX Runtime cannot run the converted model",
    "RandomTreesEmbedding": f"{CANNOT} RandomTreesEmbedding\n  RuntimeError: The converter cannot convert the model w",
}
ODDLY_REFUSED: Mapping[str, str] = {
    "bagged_machines": "output 'label' of the converted model has another form than what scikit-learn answers",
    "cubed_target": f"{CANNOT} TransformedTargetRegressor\n  NotImplementedError: its target is turned back by <f",
    "fixed_threshold_of_scores": f"{CANNOT} FixedThresholdClassifier\n  NotImplementedError: its threshold is one of s",
    "hard_vote_of_machines_of_two": f"{DISAGREES} 'label'",
}
SMALL_LETTERS = {"options": {"locale": "C.UTF-8"}}  # by which vectorizers work where no language pack is installed
TOLD: Mapping[str, Mapping[str, Any]] = {"CountVectorizer": SMALL_LETTERS, "TfidfVectorizer": SMALL_LETTERS}


QUICK = (
    "AgglomerativeClustering", "CountVectorizer", "DecisionTreeClassifier", "DummyClassifier", "FeatureHasher",
    "LinearSVC", "MinMaxScaler", "QuantileTransformer", "RadiusNeighborsClassifier", "Ridge", "StandardScaler",
)  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(sorted(every_estimator.KINDS_OF.keys() - UNFED), *QUICK))
def test_every_estimator_is_right_or_refused(tmp_path: Path, name: str) -> None:
    params = {
        "model": f"every_estimator.py:fit_{name}", "data": f"every_estimator.py:examples_{name}", **TOLD.get(name, {}),
    }  # fmt: skip
    _judge(tmp_path, params, REFUSED.get(name))


ODD = ("bagged_machines", "hard_vote_of_machines", "hard_vote_of_machines_of_two", "recursive_lines")


@pytest.mark.parametrize("name", mostly_slow(odd_estimators.ALL, *ODD))
def test_estimators_around_others_are_right_or_refused(tmp_path: Path, name: str) -> None:
    data = "flowers" if name in odd_estimators.OF_FLOWERS else "bodies"
    params = {"model": f"odd_estimators.py:{name}", "data": f"odd_estimators.py:{data}"}
    _judge(tmp_path, params, ODDLY_REFUSED.get(name))


def test_texts_in_small_letters(tmp_path: Path) -> None:
    params = {"model": "odd_estimators.py:small_letters", "data": "odd_estimators.py:texts", **SMALL_LETTERS}
    _judge(tmp_path, params, None)
    refused = (
        "ONNX Runtime cannot put texts into small letters here\n"
        "  it does so by the rules of a language, en_US.UTF-8 when none is named, which this system lacks\n"
        "  hint: name one that systems without language packs have, too: `options: {locale: C.UTF-8}`"
    )
    _judge(tmp_path, {**params, "options": {"locale": "xx_YY.UTF-8"}}, refused)


def _judge(folder: Path, params: Mapping[str, Any], refused: str | None) -> None:
    if refused is None:
        assert run_stage("convert/sklearn", folder, params, root=MODULES).value("agreement") == 1.0
        return
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", folder, params, root=MODULES)
    assert str(caught.value).startswith(refused)
