"""Runs and plans for Python programs: the report as a file or in a frame, plans as tables, progress as lines."""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.run_record import RunResult
from orun.eventlog import Listener
from orun.fs.output_file import OutputFile
from orun.report.console import Console
from orun.report.html.page import render_page
from orun.report.html.templating import render
from orun.report.stages import format_reasons
from orun.report.terminal import detect
from orun.report.trend import read_past
from orun.text.units import show

if TYPE_CHECKING:
    from orun.planning.plan import Plan

FRAME_STYLE = "width: 100%; height: 44em; border: 0"


def write_html(result: RunResult, path: Path) -> None:
    """Write the HTML report of a run.

    Raises:
        UsageError: if the path is a file that the run has read, or that only orun writes.
        OSError: if it cannot be written.
    """
    from orun.noop.overwrites import list_run_files, refuse, refuse_here

    refuse_here([path])
    refuse([path], list_run_files(result))
    with OutputFile(path) as file:
        file.write(_render_page(result).encode("utf-8", errors="backslashreplace"))


def render_html(result: RunResult) -> str:
    """Return the HTML report in a frame, so that its style does not change the notebook's."""
    text = html.escape(_render_page(result))
    return f'<iframe title="{html.escape(result.pipeline)}" sandbox srcdoc="{text}" style="{FRAME_STYLE}"></iframe>'


def render_plan(plan: Plan) -> str:
    """Return a plan as a table."""
    rows = [
        (step, format_reasons(step.reasons, every=True), "" if step.seconds is None else show(step.seconds, "s"))
        for step in plan.steps
    ]
    return render("plan.html", plan=plan, rows=rows)


def create_progress() -> Listener:
    """Return a listener that prints a line for each stage that ends."""
    return Console(sys.stdout, detect(sys.stdout))


def _render_page(result: RunResult) -> str:
    return render_page(result, *read_past(result))
