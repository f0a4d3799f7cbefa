"""The reports that a run writes to files, for people and for CI systems."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.cli import outputs
from orun.errors import UsageError
from orun.fs.output_file import OutputFile

if TYPE_CHECKING:
    from orun.core.run_record import RunResult

Form = Literal["junit", "markdown", "html", "code_quality", "metrics", "json"]

RENDERERS: Mapping[Form, tuple[str, str]] = {  # module and function of each form
    "junit": ("orun.report.junit", "junit"),
    "markdown": ("orun.report.markdown", "markdown"),
    "html": ("orun.report.html.page", "page"),
    "code_quality": ("orun.report.gitlab", "code_quality"),
    "metrics": ("orun.report.gitlab", "metrics"),
    "json": ("orun.report.document", "dumps"),
}
FILES: Sequence[Form] = ("junit", "markdown", "html")  # that have an option of their own
ALL: Mapping[str, Form] = {
    "junit.xml": "junit",
    "summary.md": "markdown",
    "report.html": "html",
    "code-quality.json": "code_quality",
    "metrics.txt": "metrics",
    "run.json": "json",
}


@dataclass(frozen=True)
class Report:
    """A file to write when a run has ended."""

    form: Form
    file: OutputFile

    def write(self, result: RunResult) -> None:
        """Write the report of a run.

        Raises:
            UsageError: when it cannot be written any more, or when the run has read what is there.
        """
        if not result.repeats:
            from orun.noop.overwrites import of_run, refuse

            refuse([self.file.path], of_run(result))
        module, function = RENDERERS[self.form]
        render = getattr(importlib.import_module(module), function)
        if self.form == "html":
            from orun.report.trend import past_of

            text = render(result, *past_of(result))
        else:
            text = render(result)
        if self.form == "markdown":
            from orun.report.trend import markdown_trend, past_of

            series, trouble = past_of(result)
            text += f"\n_{trouble}_\n" if trouble else markdown_trend(series)
        outputs.write(self.file, text)


def requested_reports(files: Mapping[Form, Path | None], folder: Path | None, *, summary: bool = True) -> list[Report]:
    """The reports that the command line asks for, and the step summary where a CI system offers one.

    Nothing is written yet.

    Args:
        files: the path of each report that has an option of its own.
        folder: where all of them go besides.
        summary: whether the step summary counts.

    Raises:
        UsageError: when one cannot be written, or two would be one file.
    """
    paths: list[tuple[Form, Path]] = [(form, path) for form, path in files.items() if path]
    paths += [(form, folder / name) for name, form in ALL.items()] if folder else []
    reports: list[Report] = []
    by_place: dict[str, Path] = {}
    for form, path in paths:
        file = outputs.look_at(path)
        if not file.is_stream and by_place.setdefault(os.path.realpath(path), path) is not path:
            raise UsageError(f"two reports would be written to {path}", hint="give each a file of its own")
        reports.append(Report(form, file))
    step = os.environ.get("GITHUB_STEP_SUMMARY") if summary else None
    if step and os.path.realpath(step) not in by_place:
        reports.append(Report("markdown", outputs.look_at(Path(step), append=True)))
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
