"""The reports that a run writes to files, for people and for CI systems."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.codec import Record
from orun.errors import StoreError, UsageError
from orun.spelling import near

if TYPE_CHECKING:
    from orun.record import RunResult

Form = Literal["junit", "markdown", "code_quality", "metrics", "json"]

RENDERERS: Mapping[Form, tuple[str, str]] = {  # module and function of each form
    "junit": ("orun.report.junit", "junit"),
    "markdown": ("orun.report.markdown", "markdown"),
    "code_quality": ("orun.report.gitlab", "code_quality"),
    "metrics": ("orun.report.gitlab", "metrics"),
    "json": ("orun.report.document", "dumps"),
}
ALL: Mapping[str, Form] = {
    "junit.xml": "junit",
    "summary.md": "markdown",
    "code-quality.json": "code_quality",
    "metrics.txt": "metrics",
    "run.json": "json",
}


class Report(Record, frozen=True):
    """A file to write, or to append to."""

    path: Path
    form: Form
    mode: Literal["w", "a"] = "w"

    def prepare(self) -> None:
        """Find out before anything runs whether it can be written, and remove what an earlier run left there.

        Raises:
            UsageError: when it cannot.
        """
        with _told(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open(self.mode).close()
            if self.mode == "w":
                self.path.unlink()

    def write(self, result: RunResult) -> None:
        """Write the report of a run.

        Raises:
            UsageError: when it cannot be written any more.
        """
        module, function = RENDERERS[self.form]
        text = getattr(importlib.import_module(module), function)(result)
        if self.form == "markdown":
            text += _trend(result)
        # A file whose name is no UTF-8 is named with its bytes written out, which JSON reads back as that name.
        with _told(self.path), self.path.open(self.mode, encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)


def wanted(junit: Path | None, markdown: Path | None, folder: Path | None) -> list[Report]:
    """The reports that the command line asks for, and the step summary where a CI system offers one."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    reports = [Report(junit, "junit")] if junit else []
    reports += [Report(markdown, "markdown")] if markdown else []
    reports += [Report(folder / name, form) for name, form in ALL.items()] if folder else []
    return reports + ([Report(Path(summary), "markdown", "a")] if summary else [])


def _trend(result: RunResult) -> str:
    """How the gated metrics went on this machine, as Markdown."""
    from orun.history import History, location, machine_of, series_of
    from orun.report.trend import markdown_trend

    gated = {(verdict.stage, verdict.metric) for verdict in result.verdicts}
    if not gated:
        return ""
    try:
        history = History(location(result.folder.parent.parent))
        same = {"pipeline": result.pipeline, "machine": machine_of(result.host)}
        points = [one for stage, metric in gated for one in history.points(**same, stage=stage, metric=metric)]
    except StoreError as error:  # the run has its verdicts; only its past is missing
        return f"\n_{error.what}_\n"
    return markdown_trend(series_of(points))


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        file = next((folder for folder in path.parents if folder.is_file()), None)
        why = f"{near(str(file))} is a file, not a folder" if file else error.strerror or str(error)
        raise UsageError(f"{path} cannot be written", why=why) from error
