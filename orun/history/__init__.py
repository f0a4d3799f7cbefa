"""Every measurement that runs made, in a database that outlives the runs: trends, change points, export.

It informs and never gates: a verdict rests on what a run measured, not on what is remembered here.
"""

from orun.history.database import History, location
from orun.history.past import past
from orun.history.points import Point, Series, points_of, series_of
from orun.history.renames import taken_over

__all__ = ["History", "Point", "Series", "location", "past", "points_of", "series_of", "taken_over"]
