"""orun validate: every mistake of pipeline files, at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

import orun
from orun.cli import options
from orun.cli.complete import complete_file
from orun.cli.verb import Verb
from orun.core.source_location import Position, Problem
from orun.errors import PipelineError, UsageError
from orun.pipeline.problems import render_note
from orun.text.counts import count

EXAMPLES = (
    ("orun validate pipelines/bert.yaml", "is the file good?"),
    ("orun validate pipelines/*.yaml --json", "several files, for a program"),
)


@click.command("validate", cls=Verb, examples=EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_file)
@options.set_option
@options.json_option
def command(files: Sequence[str], overrides: Sequence[str], as_json: bool) -> int:
    """Check pipeline files and report every mistake; runs nothing, and imports no code of yours.

    A note names variables and targets that nothing in the file uses, often typos, and gates that fail for a metric that
    is too good and never for a bad one. `orun doctor FILE` says whether this machine has what the stages need.
    """
    changes = options.parse_overrides(overrides)
    good: list[str] = []
    notes: list[str] = []
    problems: list[Problem] = []
    for file in files:
        try:
            pipeline = orun.load(file, changes)
        except PipelineError as error:
            problems += error.problems
            continue
        except UsageError as error:
            if len(files) == 1:
                raise
            message = "; ".join(filter(None, (error.problem, error.why)))
            problems.append(Problem(Position(str(Path(file).absolute()), 1, 1), message, hint=error.hint))
            continue
        on_file = list(map(render_note, pipeline.notes))
        gates = sum(len(stage.gates) for stage in pipeline.stages)  # a group counts as one, as in a run
        good += [
            f"{file}: good, {count(len(pipeline.stages), 'stage')}, {count(gates, 'gate')}",
            *(f"note: {note}" for note in on_file),
        ]
        notes += on_file
    if as_json:
        options.show_json({"valid": not problems, "problems": problems, "notes": notes})
        return PipelineError.exit_code if problems else 0
    if good:
        options.show(good)
    if problems:
        raise PipelineError(problems)
    return 0
