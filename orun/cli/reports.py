"""The reports that a run writes to files: JUnit XML, Markdown, the step summary of a CI system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.errors import UsageError

if TYPE_CHECKING:
    from orun.record import RunResult


@dataclass(frozen=True)
class Report:
    """A file to write, or to append to."""

    path: Path
    form: Literal["junit", "markdown"]
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
        from orun.report.junit import junit
        from orun.report.markdown import markdown

        text = junit(result) if self.form == "junit" else markdown(result)
        with _told(self.path), self.path.open(self.mode, encoding="utf-8") as file:
            file.write(text)


def wanted(junit: Path | None, markdown: Path | None) -> list[Report]:
    """The reports that the command line asks for, and the step summary where a CI system offers one."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    reports = [Report(junit, "junit")] if junit else []
    reports += [Report(markdown, "markdown")] if markdown else []
    return reports + ([Report(Path(summary), "markdown", "a")] if summary else [])


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written", why=error.strerror or str(error)) from error
