"""The reports that a run writes to files, for people and for CI systems: orun's own and those of packages."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orun.cli import outputs
from orun.errors import UsageError
from orun.fs.output_file import OutputFile

if TYPE_CHECKING:
    from orun.core.run_record import RunResult

RENDERERS = {  # module and function of each report of orun
    "junit": ("orun.report.junit", "render_junit"),
    "markdown": ("orun.report.markdown", "render_markdown"),
    "html": ("orun.report.html.page", "render_page"),
    "code-quality": ("orun.report.gitlab", "render_code_quality"),
    "metrics": ("orun.report.gitlab", "render_metrics"),
    "json": ("orun.report.document", "dumps"),
}
FILES = ("junit", "markdown", "html")  # that have an option of their own
ALL = {
    "junit.xml": "junit",
    "summary.md": "markdown",
    "report.html": "html",
    "code-quality.json": "code-quality",
    "metrics.txt": "metrics",
    "run.json": "json",
}


@dataclass(frozen=True)
class Report:
    """A file to write when a run has ended."""

    file: OutputFile
    render: Callable[[RunResult], str | bytes]

    def write(self, result: RunResult) -> None:
        """Write the report of a run.

        Raises:
            UsageError: when it cannot be written any more, or when the run has read what is there.
        """
        if not result.repeats:
            from orun.noop.overwrites import list_run_files, refuse

            refuse([self.file.path], list_run_files(result))
        outputs.write(self.file, self.render(result))


def _find_renderer(name: str) -> Callable[[RunResult], str | bytes]:
    """Return what renders a report: a function of orun, or of a package, which is imported now.

    Raises:
        UsageError: when there is no such report, or its package is broken.
    """
    if name in RENDERERS:
        return partial(_render, name)
    from orun.report.plugins import find_renderer

    return find_renderer(name, RENDERERS)


def _render(name: str, result: RunResult) -> str:
    module, function = RENDERERS[name]
    render = getattr(importlib.import_module(module), function)
    if name == "html":
        from orun.report.trend import read_past

        return str(render(result, *read_past(result)))
    text = str(render(result))
    if name == "markdown":
        from orun.report.trend import format_markdown, read_past

        series, trouble = read_past(result)
        text += f"\n_{trouble}_\n" if trouble else format_markdown(series)
    return text


def list_requested(
    files: Iterable[tuple[str, Path | None]], folder: Path | None, *, summary: bool = True
) -> list[Report]:
    """Return the reports that the command line asks for, and the step summary where a CI system offers one.

    Nothing is written yet.

    Args:
        files: name and path of each report; no path for one that is not asked for.
        folder: where all reports of orun go besides.
        summary: whether the step summary counts.

    Raises:
        UsageError: when there is no such report, it cannot be written, or two would be one file.
    """
    paths = [(name, path) for name, path in files if path]
    paths += [(name, folder / file) for file, name in ALL.items()] if folder else []
    reports: list[Report] = []
    by_place: dict[str, Path] = {}
    for name, path in paths:
        file = outputs.look_at(path)
        if not file.is_stream and by_place.setdefault(os.path.realpath(path), path) is not path:
            raise UsageError(f"two reports would be written to {path}", hint="give each a file of its own")
        reports.append(Report(file, _find_renderer(name)))
    step = os.environ.get("GITHUB_STEP_SUMMARY") if summary else None
    if step and os.path.realpath(step) not in by_place:
        reports.append(Report(outputs.look_at(Path(step), append=True), _find_renderer("markdown")))
    return reports


def write_all(reports: Sequence[Report], result: RunResult) -> None:
    """Write the reports of a run; one that cannot be written keeps no other from it.

    Raises:
        UsageError: when some cannot be written.
    """
    errors = []
    for report in reports:
        try:
            report.write(result)
        except UsageError as error:
            errors.append(error)
    if len(errors) > 1:
        reasons = "\n".join(f"{error.problem}: {error.why}" for error in errors)
        raise UsageError(f"{len(errors)} reports cannot be written", why=reasons, hint=errors[0].hint)
    if errors:
        raise errors[0]
