"""Table of a run's metrics as a pandas DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orun.core.run_record import RunResult

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("stage", "metric", "value", "low", "high", "unit", "better", "outcome", "uses")


def to_frame(result: RunResult) -> DataFrame:
    """Return a row for each stage and metric; see `RunResult.to_frame`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame() needs pandas, which is not installed: pip install pandas") from error
    rows = []
    for stage in result.stages:
        for name, metric in stage.metrics.items():
            bounds = (metric.interval.low, metric.interval.high) if metric.interval else (None, None)
            figures = (metric.value, *bounds, metric.unit, metric.better)
            rows.append((stage.stage, name, *figures, stage.outcome, stage.uses))
    return pd.DataFrame(rows, columns=list(COLUMNS))
