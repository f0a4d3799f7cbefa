"""The reports that a run writes to files, for people and for CI systems."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.core.serialization import Record
from orun.errors import StoreError, UsageError
from orun.text.suggestions import near

if TYPE_CHECKING:
    from orun.core.run_record import RunResult
    from orun.history import Series

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
        render = getattr(importlib.import_module(module), function)
        text = render(result, *_past(result)) if self.form == "html" else render(result)
        if self.form == "markdown":
            text += _trend(result)
        # A file whose name is no UTF-8 is named with its bytes written out, which JSON reads back as that name.
        with _told(self.path), self.path.open(self.mode, encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)


def wanted(files: Mapping[Form, Path | None], folder: Path | None) -> list[Report]:
    """The reports that the command line asks for, and the step summary where a CI system offers one."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    reports = [Report(path, form) for form, path in files.items() if path]
    reports += [Report(folder / name, form) for name, form in ALL.items()] if folder else []
    return reports + ([Report(Path(summary), "markdown", "a")] if summary else [])


def _trend(result: RunResult) -> str:
    """How the gated metrics went on this machine, as Markdown."""
    from orun.report.trend import markdown_trend

    series, trouble = _past(result)
    return f"\n_{trouble}_\n" if trouble else markdown_trend(series)


def _past(result: RunResult) -> tuple[Sequence[Series], str]:
    """The measurements of the gated metrics on their machines, or why they cannot be read."""
    from orun.history import History, location, past

    try:
        return past(History(location(result.folder.parent.parent)), result), ""
    except StoreError as error:  # the run has its verdicts; only its past is missing
        return (), error.what


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        file = next((folder for folder in path.parents if folder.is_file()), None)
        why = f"{near(str(file))} is a file, not a folder" if file else error.strerror or str(error)
        raise UsageError(f"{path} cannot be written", why=why) from error
