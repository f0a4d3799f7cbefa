"""Reports that packages offer under the entry point group `orun.reports`, each imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from orun.core.run_record import RunResult
from orun.environment.entry_points import Group, describe, name_package
from orun.errors import UsageError
from orun.text.suggestions import find_closest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

REPORTS = Group("orun.reports", "report")


def find_renderer(name: str, library: Collection[str]) -> Callable[[RunResult], str | bytes]:
    """Return the function of a package that renders a report.

    Raises:
        UsageError: when no package offers it, several do, or the package is broken.
    """
    offered = REPORTS.find()
    if points := offered.get(name):
        return partial(_render, points[0], REPORTS.load_function(points))
    known = (*library, *offered)
    near = find_closest(name, known)
    why = f"known: {', '.join(known)}"
    raise UsageError(f"there is no report {name!r}", why=f"did you mean {near}?\n{why}" if near else why)


def _render(point: EntryPoint, render: Callable[[RunResult], object], result: RunResult) -> str | bytes:
    """Return what the function of a package renders; raise UsageError when it fails."""
    problem = f"the report {point.name!r} of the package {name_package(point)} failed"
    try:
        content = render(result)
    except Exception as error:  # a package may raise any error
        raise UsageError(problem, why=describe(error)) from error
    if not isinstance(content, str | bytes):
        raise UsageError(problem, why=f"{point.value} returned {type(content).__name__}, not str or bytes")
    return content
