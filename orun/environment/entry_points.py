"""Entry points of installed packages: what they add to orun, each imported only when it is used."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.serialization import Record
from orun.environment.bytecode import distrust_package
from orun.text.suggestions import Unknown, show_path

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Files of frames between orun and the package's code.
LOADING = (f"{Path(__file__).parents[1]}/", str(Path(importlib.__file__).parent), "<frozen ")


class Group(Record, frozen=True):
    """Group of entry points, by which packages add one sort of thing to orun.

    Attributes:
        name: its name: `orun.reports`.
        noun: what each entry point of it is, for messages: `report`.
    """

    name: str
    noun: str

    def find(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """Return the entry points by name, in order of names; several if several packages offer that name."""
        from importlib.metadata import entry_points

        points: dict[str, tuple[EntryPoint, ...]] = {}
        for point in sorted(entry_points(group=self.name), key=lambda point: (point.name, name_package(point))):
            points[point.name] = (*points.get(point.name, ()), point)
        return points

    def load(self, points: tuple[EntryPoint, ...]) -> Any:
        """Return the object behind the entry points of a name.

        Raises:
            Unknown: when there are several, or the package cannot be imported.
        """
        point = points[0]
        if len(points) > 1:
            packages = [name_package(point) for point in points]
            raise Unknown(
                f"the {self.noun} {point.name!r} is offered by {len(packages)} packages: {', '.join(packages)}",
                expected="a single package that offers it",
                hint=f"pip uninstall {packages[-1]}",
            )
        distrust_package(point.module.partition(".")[0])
        try:
            return point.load()
        except Exception as error:  # importing a package may raise any error
            raise self.build_broken_error(point, describe(error), show="") from error

    def load_function(self, points: tuple[EntryPoint, ...]) -> Any:
        """Return the function behind the entry points of a name; see `load` for what it raises."""
        function = self.load(points)
        if not callable(function):
            raise self.build_broken_error(points[0], f"{points[0].value} is not a function")
        return function

    def build_shadowed_error(self, point: EntryPoint) -> Unknown:
        """Return the error of an entry point with a name of orun's own, which comes before it."""
        why = f"orun has a {self.noun} of that name"
        hint = f"rename its entry point in the group {self.name}"
        return Unknown(f"{self._format_title(point)} cannot be used: {why}", hint=hint)

    def build_broken_error(
        self, point: EntryPoint, why: str, show: str = " as it; print(it.__file__, dir(it))"
    ) -> Unknown:
        """Return the error of a broken package; the hint for an editable one shows its import error or its content."""
        from orun.environment.install_commands import format_upgrade_command

        own = point.dist is not None and point.dist.read_text("direct_url.json") is not None
        return Unknown(
            f"{self._format_title(point)} cannot be used: {why}",
            hint=f"python -c 'import {point.module}{show}'" if own else format_upgrade_command(name_package(point)),
        )

    def _format_title(self, point: EntryPoint) -> str:
        return f"the {self.noun} {point.name!r} of the package {name_package(point)}"


def name_package(point: EntryPoint) -> str:
    """Return the package that offers an entry point."""
    return point.dist.name if point.dist else point.value


def describe(error: Exception) -> str:
    """Return an error of a package, and its location in the package's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} at {show_path(error.filename)}:{error.lineno}"
    frames = reversed(traceback.extract_tb(error.__traceback__))
    own = next((frame for frame in frames if not frame.filename.startswith(LOADING)), None)
    location = f" at {show_path(own.filename)}:{own.lineno}" if own else ""
    return f"{type(error).__name__}: {error}{location}"
