"""Every measurement that runs made, in a database that outlives the runs: trends, change points, export.

It informs and never gates: a verdict rests on what a run measured, not on what is remembered here.
"""

from orun.history.database import History
from orun.history.past import past
from orun.history.points import Point, Series, points_of, series_of
from orun.history.renames import taken_over
from orun.store.layout import history_path

__all__ = ["History", "Point", "Series", "history_path", "past", "points_of", "series_of", "taken_over"]
