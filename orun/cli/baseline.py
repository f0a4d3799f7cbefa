"""orun baseline: the release that the next ones are compared with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import orun
from orun.cli import options
from orun.cli.accepted_run import (
    find_last_run,
    format_command,
    list_failing_gates,
    push_models,
    require_up_to_date,
)
from orun.cli.verb import HELP_NAMES, Verb
from orun.environment.hosts import format_machine
from orun.errors import UsageError
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import quote
from orun.report.gates import explain_verdict
from orun.report.stages import SHORT
from orun.report.table import Cell, Column, render
from orun.report.terminal import detect
from orun.store.layout import locate_store
from orun.text.suggestions import show_path
from orun.text.units import show, show_change

if TYPE_CHECKING:
    from orun.core.verdict import Verdict
    from orun.gates.baseline_file import Accepted, Baseline
    from orun.gates.baselines import Difference
    from orun.pipeline.model import Pipeline
    from orun.store import Store

F = TypeVar("F", bound=Callable[..., object])
ACCEPTED = (
    Column("stage"),
    Column("metric"),
    Column("accepted", "right"),
    Column("model"),
    Column("of", flexible=True),
)
DIFFERENCES = (
    Column("stage"),
    Column("metric"),
    Column("accepted", "right"),
    Column("now", "right"),
    Column("change", "right"),
    Column("model"),
)


@click.group("baseline", context_settings={"help_option_names": HELP_NAMES})
def command() -> None:
    """The release that was accepted last: what `max_regression` compares with.

    It is a file beside the pipeline file, made to be committed: `bert.baseline.json` for `bert.yaml`. `bert.yml`
    beside that would have the same one, which is refused.
    """


def _verb(name: str, meaning: str, *, reads_results: bool = False) -> Callable[[F], click.Command]:
    """Return a verb of this group on a pipeline file, and on the results of its stages if it reads those."""
    reading = (options.store_option, options.set_option) if reads_results else ()

    def decorate(function: F) -> click.Command:
        for decorator in (options.json_option, *reading, options.file_argument):
            function = decorator(function)
        examples = ((f"orun baseline {name} pipelines/bert.yaml", meaning),)
        return command.command(name, cls=Verb, examples=examples)(function)

    return decorate


@_verb("accept", "after a run that is as it should be", reads_results=True)
@options.remote_options
@click.option("--force", is_flag=True, help="Accept it although gates fail that compare with no baseline.")
def accept(file: str, overrides: Sequence[str], store: Path | None, as_json: bool, force: bool, **choices: Any) -> int:
    """Accept what the last run of FILE measured, with the models that it measured.

    The models are pinned in the store, so that `orun store gc` keeps them, and given to the remote if there is one, so
    that other machines can measure beside them.

    Everything that the run measured must be up to date. A gate that failed against the baseline is no hindrance: that
    is how a regression that is meant gets through. A run with another gate that fails, or blocks a release, is refused
    without --force, as its release is never built.
    """
    from orun.gates import baselines
    from orun.gates.pinned import pin_models

    pipeline = orun.load(file, options.parse_overrides(overrides))
    with _open(store, pipeline) as opened:
        result = find_last_run(pipeline, opened)
        steps = require_up_to_date(pipeline, opened, result)
        actions = {step.stage.id: step.cached_action for step in steps if step.cached_action}
        baseline = baselines.build_candidate(pipeline, result, actions)
        failing = list_failing_gates(pipeline, opened, baseline, steps)
        if failing and not force:
            raise _build_unreleasable_error(pipeline, opened.root, failing)
        path = baselines.accept(pipeline, baseline)
        pinned = pin_models(opened, pipeline.name, baseline.stages)
        models = {accepted.model for accepted in baseline.stages.values()}
        making = [step for step in steps if step.cached_action and step.cached_action.tree in models]
        notices = push_models(pipeline, opened, making, options.take_remote(choices))
    accepted = [stage.stage for stage in result.stages if stage.metrics]
    measure = format_command(pipeline, opened.root)
    notices += tuple(_format_left_out(baselines.list_left_out(pipeline, result), baseline, measure))
    if as_json:
        document = {"file": str(path), "run": result.run, "stages": accepted, "pinned": pinned, "notices": notices}
        options.show_json({**document, "failing": failing})
    else:
        lines = [f"accepted {', '.join(accepted)} of run {result.run}", *notices]
        lines += [
            f"warning: {verdict.title} is {verdict.outcome} all the same: {explain_verdict(verdict)}"
            for verdict in failing
        ]
        options.show([*lines, f"commit {show_path(str(path))}"])
    return 0


def _build_unreleasable_error(pipeline: Pipeline, store: Path, failing: Sequence[Verdict]) -> UsageError:
    """Return the error of a run whose gates fail, or block its releases, whatever is accepted."""
    accept_again = format_command(pipeline, store, "baseline accept ")
    return UsageError(
        f"the last run of {show_path(str(pipeline.file))} fails whatever is accepted",
        why="\n".join(f"{verdict.title} is {verdict.outcome}: {explain_verdict(verdict)}" for verdict in failing),
        hint=f"see to these gates, or accept it all the same: {accept_again} --force",
    )


@_verb("show", "what is accepted")
def show_accepted(file: str, as_json: bool) -> int:
    """Show what is accepted for FILE: figures, models, machine, who and when."""
    baseline = _require_baseline(orun.load(file))
    if as_json:
        options.show_json(baseline)
    else:
        rows = [row for stage, accepted in baseline.stages.items() for row in _build_accepted_rows(stage, accepted)]
        options.show(render(ACCEPTED, rows, detect(sys.stdout)))
    return 0


@_verb("diff", "how the present results differ", reads_results=True)
def diff(file: str, overrides: Sequence[str], store: Path | None, as_json: bool) -> int:
    """Lay the results of FILE beside what is accepted.

    A stage that is not up to date has no figure now. Figures of times are of different runs, and perhaps of different
    machines: a gate measures both models side by side.
    """
    from orun.gates import baselines

    pipeline = orun.load(file, options.parse_overrides(overrides))
    baseline = _require_baseline(pipeline)
    root = locate_store(store, pipeline.root)
    steps = orun.plan(pipeline, store=root).steps
    actions = {step.stage.id: step.cached_action for step in steps if step.cached_action}
    rows = baselines.diff(baseline, pipeline, actions)
    if as_json:
        options.show_json({"differences": rows})
    else:
        unmeasured = [step.stage.id for step in steps if step.stage.id in baseline.stages.keys() - actions]
        plan = format_command(pipeline, root, "plan ")
        notes = [f"note: no figures of {', '.join(unmeasured)} now; to see why: {plan}"] if unmeasured else []
        options.show([*render(DIFFERENCES, map(_build_difference_row, rows), detect(sys.stdout)), *notes])
    return 0


@_verb("drop", "compare with nothing from now on", reads_results=True)
def drop(file: str, overrides: Sequence[str], store: Path | None, as_json: bool) -> int:
    """Remove the baseline of FILE and the pins of its models.

    Until another is accepted, gates with `max_regression` have no baseline.
    """
    from orun.gates import baselines
    from orun.gates.baseline_file import locate_baseline
    from orun.gates.pinned import unpin_models

    pipeline = orun.load(file, options.parse_overrides(overrides))
    path = locate_baseline(pipeline.file)
    if stat_presence(locate_store(store, pipeline.root)):
        with _open(store, pipeline) as opened:
            unpin_models(opened, pipeline.name)
    dropped = baselines.drop(pipeline)
    if as_json:
        options.show_json({"file": str(path), "dropped": dropped})
    else:
        options.show([f"removed {show_path(str(path))}" if dropped else f"there is no {show_path(str(path))}"])
    return 0


def _open(store: Path | None, pipeline: Pipeline) -> Store:
    from orun.store import Store

    return Store.open(locate_store(store, pipeline.root))


def _require_baseline(pipeline: Pipeline) -> Baseline:
    from orun.gates import baselines
    from orun.gates.baseline_file import find_abandoned_baseline

    baseline = baselines.read(pipeline)
    if baseline is None:
        file = quote(show_path(str(pipeline.file)))
        abandoned = find_abandoned_baseline(pipeline.file)
        why = f"{abandoned} is of a pipeline file that is gone: if it was this one, rename it, too" if abandoned else ""
        raise UsageError(f"nothing is accepted for {file}", why=why, hint=f"orun baseline accept {file}")
    return baseline


def _format_left_out(names: Sequence[str], baseline: Baseline, measure: str) -> list[str]:
    """Return what is so of stages with gates that the run did not measure, and the command that measures them."""
    old = [name for name in names if name in baseline.stages]
    new = [name for name in names if name not in baseline.stages]
    return [
        f"warning: {', '.join(stages)}: not measured by that run; {state}; to measure: {measure}, then accept again"
        for stages, state in ((old, "what was accepted before stays"), (new, "nothing is accepted"))
        if stages
    ]


def _build_accepted_rows(stage: str, accepted: Accepted) -> list[tuple[Cell, ...]]:
    origin = Cell(f"{accepted.day}, {accepted.who}, {format_machine(accepted.host)}", "dim")
    return [
        (Cell(stage, "strong"), Cell(name), Cell(show(metric.value, metric.unit)), Cell(accepted.model[:SHORT]), origin)
        for name, metric in accepted.metrics.items()
    ]


def _build_difference_row(row: Difference) -> tuple[Cell, ...]:
    accepted, now = (Cell("-" if value is None else show(value, row.unit)) for value in (row.accepted, row.current))
    change = show_change(row.accepted, row.current, row.unit)
    return Cell(row.stage, "strong"), Cell(row.metric), accepted, now, Cell(change), Cell("new" * row.model_changed)
