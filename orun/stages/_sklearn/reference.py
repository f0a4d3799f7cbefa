"""scikit-learn estimator as a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sklearn
from threadpoolctl import threadpool_limits

from orun.measure.dataset import Array
from orun.stages._graph.sessions import Feed
from orun.stages._sklearn.check import compute_answers, list_methods
from orun.stages._sklearn.export import Table, yields_only_labels
from orun.stages._sklearn.plain import Estimator, iter_parts


class SklearnReference:
    """Fitted estimator.

    Args:
        estimator: the estimator.
        raw: whether its scores are those of `decision_function`.
        threads: of BLAS and OpenMP, and of estimators that work in parallel; None for their own choice.
    """

    def __init__(self, estimator: Estimator, threads: int | None, *, raw: bool) -> None:
        self.title = f"scikit-learn {sklearn.__version__}"
        self._estimator = estimator
        self._raw = raw
        if threads:
            self._limits = threadpool_limits(threads)
            for part in iter_parts(estimator):
                if getattr(part, "n_jobs", None) not in (None, 1):
                    part.n_jobs = threads

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """Return what scikit-learn answers, in the order of the ONNX model's outputs."""
        return compute_answers(self._estimator, Table(feed), raw=self._raw)

    def bind(self, feed: Feed) -> Callable[[], object]:
        """Return a function that calls the method with the scores, from which labels follow; else `predict`."""
        methods = list_methods(self._estimator, raw=self._raw)
        method = getattr(self._estimator, methods[0 if yields_only_labels(self._estimator) else -1])
        matrix = Table(feed).to_matrix(self._estimator)
        try:
            method(matrix)
        except ValueError:  # see `compute_answers`
            matrix = Table(feed).to_matrix(self._estimator, widened=False)
        return lambda: method(matrix)
