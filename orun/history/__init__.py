"""Measurements of all runs, in a database that outlives the runs: trends, change points, export.

The history never gates: a verdict depends on what a run measured, not on what is stored here.
"""

from orun.history.database import History
from orun.history.points import Point, Series, points_of, points_used_again, series_of
from orun.history.search import points_of_renamed
from orun.store.layout import history_path

__all__ = [
    "History",
    "Point",
    "Series",
    "history_path",
    "points_of",
    "points_of_renamed",
    "points_used_again",
    "series_of",
]
