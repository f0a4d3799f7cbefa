"""Stage kind as plain data, however it was declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any, Literal

from orun.core.serialization import Record
from orun.stages.contract import Spec
from orun.stages.params import Param, build, list_params


class Kind(Record, frozen=True):
    """Kind that `uses` may name.

    Attributes:
        name: as written in `uses`.
        origin: `built-in`, `plug-in` (a package's entry point) or `file` (a user's function).
        entry: module of a built-in or plug-in kind; `path.py:function`, relative to the pipeline file, for a function.
        doc: the user's documentation; its first line is the summary.
        params: its parameters in order.
        spec: its declaration.
        metrics: names of the metrics for resolved parameters, or None when any name may come.
        distribution: the package of a plug-in, whose version is in the key; else empty.
    """

    name: str
    origin: Literal["built-in", "plug-in", "file"]
    entry: str
    doc: str
    params: tuple[Param, ...]
    spec: Spec
    metrics: Callable[[Mapping[str, Any]], Collection[str] | None]
    distribution: str = ""

    @property
    def summary(self) -> str:
        """First line of the documentation."""
        return self.doc.partition("\n")[0]


def bind_metrics(module: ModuleType) -> Callable[[Mapping[str, Any]], Collection[str] | None]:
    """Return a function from resolved parameters to names of metrics; it returns None if a required one is missing."""
    spec: Spec = module.SPEC
    declared = getattr(module, "metrics", None)
    if declared is None:
        return lambda _params: spec.metrics
    required = {param.name for param in list_params(module.Params) if param.required}
    return lambda params: declared(build(module.Params, params)) if required <= params.keys() else None
