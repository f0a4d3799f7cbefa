"""Results that `orun baseline accept` accepts: those of the last run, if they are still up to date."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orun
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.remote.options import Remote
from orun.store.layout import format_command_options
from orun.text.suggestions import show_path
from orun.text.wording.reasons import describe_reasons

if TYPE_CHECKING:
    from orun.core.run_record import RunResult, StageResult
    from orun.core.verdict import Verdict
    from orun.gates.baseline_file import Baseline
    from orun.pipeline.model import Pipeline
    from orun.planning.plan import Step
    from orun.store import Store

SEARCHED = 100  # newest runs to search for one of this very file, if another file has the pipeline's name


def push_models(pipeline: Pipeline, store: Store, steps: Sequence[Step], requested: Remote | None) -> tuple[str, ...]:
    """Push the results of these stages to the remote, if there is one; return notices."""
    from orun.remote.settings import resolve

    remote = resolve(requested or Remote(), pipeline.project)
    if remote is None:
        return ()
    from orun.planning.planner import Planner
    from orun.remote.sync import push_results

    return push_results(remote, Planner(pipeline, store), steps)


def list_failing_gates(
    pipeline: Pipeline, store: Store, baseline: Baseline, steps: Sequence[Step]
) -> tuple[Verdict, ...]:
    """Return the gates that still fail a run, or block its releases, beside this baseline."""
    from orun.planning.planner import Planner

    planner = Planner(pipeline, store, baseline)
    judged = (planner.judge(step.stage, step.cached_action) for step in steps if step.cached_action)
    return tuple(verdict for verdicts in judged for verdict in verdicts if verdict.blocks)


def find_last_run(pipeline: Pipeline, store: Store) -> RunResult:
    """Return the newest finished run of the pipeline, without its blocked stages.

    A run of this very file goes first: in a shared store, another file may have the same pipeline name.
    """
    from orun.eventlog import read_result

    newest: RunResult | None = None
    for number, folder in enumerate(store.iter_ended_runs()):
        if newest and number >= SEARCHED:
            break
        result = read_result(folder)
        if result.pipeline == pipeline.name:
            if Path(result.file) == pipeline.file:
                newest = result
                break
            newest = newest or result
    if newest is None:
        raise UsageError(f"there is no run of {pipeline.name} to accept", hint=format_command(pipeline, store.root))
    known = {stage.id for stage in pipeline.stages}
    kept = [stage for stage in newest.stages if stage.outcome != "blocked"]
    return replace(newest, stages=tuple(stage for stage in kept if stage.stage in known))


def require_up_to_date(pipeline: Pipeline, store: Store, result: RunResult) -> tuple[Step, ...]:
    """Return the stages of a run with their stored results; refuse a result that a run would not use now."""
    names = [stage.stage for stage in result.stages]
    steps = orun.plan(pipeline, only=names, store=store.root).steps if names else ()
    for step in steps:
        ran = result[step.stage.id]
        if ran.outcome == "skipped":  # it has nothing to accept
            continue
        if stale := _list_differences(step, ran, store):
            raise UsageError(
                f"what the last run has for {step.stage.id} is not up to date, so it cannot be accepted",
                why="\n".join(stale),
                hint=format_command(pipeline, store.root),
            )
    return tuple(steps)


def _list_differences(step: Step, ran: StageResult, store: Store) -> Sequence[str]:
    """Return what differs between a stage as it ran and as it would run now; nothing if its result is the same."""
    from orun.planning.key_diff import list_key_changes

    if ran.outcome == "failed":
        return ("it failed in the last run",)
    if step.cached_action is None:
        return describe_reasons(step.reasons)
    if step.cached_action.tree == ran.tree:
        return ()
    then = next((action.components for action in store.list_actions(ran.key)), step.components)
    return describe_reasons(
        list_key_changes(step.stage, then, step.components) or [build_reason(ReasonCode.OTHER_RESULT)]
    )


def format_command(pipeline: Pipeline, store: Path, verb: str = "") -> str:
    """Return the command of a verb, or that of a run, with the file, the values and the store of this command."""
    options = format_command_options(pipeline.overrides, store, pipeline.root)
    return f"orun {verb}{quote(show_path(str(pipeline.file)))}{options}"
