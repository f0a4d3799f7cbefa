"""Measurements of all runs, in a database that outlives the runs: trends, change points, export.

The history never gates: a verdict depends on what a run measured, not on what is stored here.
"""

from orun.history.database import History
from orun.history.points import Point, Series, group_points, list_points, list_points_used_again
from orun.history.search import find_renamed_points
from orun.store.layout import locate_history

__all__ = [
    "History",
    "Point",
    "Series",
    "find_renamed_points",
    "group_points",
    "list_points",
    "list_points_used_again",
    "locate_history",
]
