"""Loading of a fitted estimator: from the user's function, a pickle, or a file of gradient-boosted trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.stages.contract import Context
from orun.stages.datasets import CODE
from orun.stages.params import Code

if TYPE_CHECKING:
    from orun.stages._sklearn.plain import Estimator

TREE_PACKAGES = {  # by suffix of a file; the first reads it
    ".json": ("xgboost|xgboost-cpu", "onnxmltools"),
    ".ubj": ("xgboost|xgboost-cpu", "onnxmltools"),
    ".txt": ("lightgbm", "onnxmltools"),
    ".cbm": ("catboost",),
}


def load_estimator(context: Context, model: str, *, trust_pickle: bool) -> Estimator:
    """Load an estimator, which takes the empty text for missing texts.

    Raises:
        StageFailed: when it cannot be read, or is no estimator.
    """
    from orun.stages._sklearn.plain import accept_empty_texts
    from orun.stages.library_warnings import warnings_to

    with warnings_to(context.log):  # a file of another version of scikit-learn warns
        estimator = _read(context, model, trust_pickle=trust_pickle)
    if not (hasattr(estimator, "predict") or hasattr(estimator, "transform")):
        raise context.failed(
            f"{model} must be a fitted estimator of scikit-learn",
            why=f"a {type(estimator).__name__} has neither `predict` nor `transform`",
        )
    accept_empty_texts(estimator)
    return estimator


def _read(context: Context, model: str, *, trust_pickle: bool) -> Any:
    from orun.stages._sklearn.trees import READERS
    from orun.stages.library_errors import failing

    if CODE.fullmatch(model):
        return context.load(Code(model), ())()
    suffix = Path(model).suffix.lower()
    if suffix not in READERS:
        return _unpickle(context, model, trust_pickle=trust_pickle)
    with failing(context, f"{model} is no model of {TREE_PACKAGES[suffix][0].partition('|')[0]}"):
        return READERS[suffix](context.root / model)


def _unpickle(context: Context, model: str, *, trust_pickle: bool) -> Any:
    import joblib

    if (context.root / model).is_dir():
        raise context.failed(
            f"{model} is a folder, not an estimator",
            hint="name a function that returns it: model: file.py:function; or the file that joblib wrote",
        )
    if not trust_pickle:
        raise context.failed(
            f"{model} was not read: it is a pickle, which can run any code",
            why="`trust_pickle` is false",
            hint="if you know where it comes from: trust_pickle: true; better, return the estimator from a function",
        )
    try:
        return joblib.load(context.root / model)
    except Exception as error:  # unpickling may raise anything
        raise context.failed(f"{model} cannot be unpickled", why=f"{type(error).__name__}: {error}") from error
