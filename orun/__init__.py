"""Declarative, cached and gated build pipelines for ONNX model releases.

    import orun
    result = orun.run("pipelines/bert.yaml", set={"vars.sequence": 64})
    print(result.exit_code, result["int8"].metrics["size"].value)

Names are imported when they are first used, so that `import orun` costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orun.api import explain, history, load, plan, run, verify, watch
    from orun.core.metrics import Comparison, Estimate, Metric
    from orun.core.run_record import RunInterrupted, RunResult, StageResult
    from orun.core.source_location import Problem
    from orun.core.verdict import Verdict
    from orun.drift.result import WatchedStatistic, WatchResult
    from orun.errors import OrunError, PipelineError, StageError, StoreError, UsageError
    from orun.history.points import Point, Series
    from orun.measure.dataset import Dataset
    from orun.measure.metrics.scores import compare, interval
    from orun.pipeline.model import Pipeline
    from orun.planning.plan import Plan, Step
    from orun.remote.options import Remote
    from orun.scaffold.init import init
    from orun.stages.contract import Context, stage
    from orun.stages.params import Code, Doc, Duration, FilePath, Range, Ratio, Size, TargetName
    from orun.stages.release._bundle_check import BundleCheck

__version__ = "0.2.0"

_HOMES = {
    "orun.api": ("explain", "history", "load", "plan", "run", "verify", "watch"),
    "orun.errors": ("OrunError", "PipelineError", "StageError", "StoreError", "UsageError"),
    "orun.core.source_location": ("Problem",),
    "orun.drift.result": ("WatchResult", "WatchedStatistic"),
    "orun.history.points": ("Point", "Series"),
    "orun.measure.dataset": ("Dataset",),
    "orun.measure.metrics.scores": ("compare", "interval"),
    "orun.core.metrics": ("Comparison", "Estimate", "Metric"),
    "orun.pipeline.model": ("Pipeline",),
    "orun.planning.plan": ("Plan", "Step"),
    "orun.core.run_record": ("RunInterrupted", "RunResult", "StageResult"),
    "orun.core.verdict": ("Verdict",),
    "orun.remote.options": ("Remote",),
    "orun.scaffold.init": ("init",),
    "orun.stages.contract": ("Context", "stage"),
    "orun.stages.params": ("Code", "Doc", "Duration", "FilePath", "Range", "Ratio", "Size", "TargetName"),
    "orun.stages.release._bundle_check": ("BundleCheck",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BundleCheck",
    "Code",
    "Comparison",
    "Context",
    "Dataset",
    "Doc",
    "Duration",
    "Estimate",
    "FilePath",
    "Metric",
    "OrunError",
    "Pipeline",
    "PipelineError",
    "Plan",
    "Point",
    "Problem",
    "Range",
    "Ratio",
    "Remote",
    "RunInterrupted",
    "RunResult",
    "Series",
    "Size",
    "StageError",
    "StageResult",
    "Step",
    "StoreError",
    "TargetName",
    "UsageError",
    "Verdict",
    "WatchResult",
    "WatchedStatistic",
    "compare",
    "explain",
    "history",
    "init",
    "interval",
    "load",
    "plan",
    "run",
    "stage",
    "verify",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package, in which the room `orun/history/` does not hide the function `orun.history` once it is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "history":
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
