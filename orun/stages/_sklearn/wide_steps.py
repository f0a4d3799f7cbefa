"""Steps of a pipeline in float64, as scikit-learn computes them, before a last one in float32."""

from __future__ import annotations

from typing import Any

from orun.stages._sklearn.plain import Estimator, parts_of

TREES = ("sklearn.tree.", "sklearn.ensemble._hist_gradient_boosting.", "xgboost.", "lightgbm.", "catboost.")  # modules


def has_trees(estimator: Estimator) -> bool:
    """Return whether trees are among the parts of an estimator."""
    return any(f"{type(part).__module__}.".startswith(TREES) for part in parts_of(estimator))


def with_wide_steps(estimator: Estimator) -> Any:
    """Return a pipeline that casts what its last step takes to float32, as trees do; None without a step before it."""
    import numpy as np
    from skl2onnx.sklapi import CastTransformer
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline) or not hasattr(estimator, "predict"):
        return None
    *steps, last = [(name, step) for name, step in estimator.steps if step not in (None, "passthrough")]
    return Pipeline([*steps, ("as_float32", CastTransformer(dtype=np.float32)), last]) if steps else None
