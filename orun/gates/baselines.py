"""Baseline of a pipeline: accepted in `<stem>.baseline.json` next to its file, to be reviewed and committed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components
from orun.core.metrics import Metric, Unit
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import Record, replace
from orun.errors import UsageError
from orun.executors import Mask
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import convert_os_errors, quote
from orun.gates.baseline_file import (
    WRITABLE_CHECKOUT,
    Accepted,
    Baseline,
    group_by_kind,
    locate_baseline,
    read_file,
    require_alone,
    write_file,
)
from orun.gates.measured import Ports
from orun.pipeline.model import Pipeline
from orun.store.records import Action


class Difference(Record, frozen=True):
    """Difference between an accepted figure and the current figure.

    Attributes:
        stage: the stage's id.
        metric: name of the figure.
        unit: of the values.
        accepted: its accepted value; None where there is none.
        current: its value now; None where there is none.
        model_changed: whether another model is measured now than was accepted.
    """

    stage: str
    metric: str
    unit: Unit
    accepted: float | None
    current: float | None
    model_changed: bool


def read(pipeline: Pipeline) -> Baseline | None:
    """Return the accepted baseline; None if nothing was accepted.

    Raises:
        PipelineError: when the file is not what `accept` wrote, with the line as far as it is known; or another
            pipeline file has the same one.
    """
    baseline = read_file(locate_baseline(pipeline.file))
    if baseline is not None:
        require_alone(pipeline.file)
    return baseline


def accept(pipeline: Pipeline, baseline: Baseline) -> Path:
    """Write the accepted baseline and return the path of its file; StoreError if it cannot be written."""
    path = locate_baseline(pipeline.file)
    write_file(path, baseline)
    return path


def build_candidate(pipeline: Pipeline, result: RunResult, actions: Mapping[str, Action]) -> Baseline:
    """Return the baseline that accepting a run would make; stages outside of it keep what was accepted before.

    Raises:
        UsageError: when a stage of the run is not up to date, or nothing was measured.
        PipelineError: when the present file cannot be read, or is another pipeline file's as well.
    """
    require_alone(pipeline.file)
    for stage in result.stages:
        _require_good(pipeline, stage)
    measured = [stage.stage for stage in result.stages if stage.metrics]
    if not measured:
        why = "no stage of the run has metrics"
        raise UsageError("there is nothing to accept", why=why, hint=f"orun {quote(pipeline.file)}")
    date, who = datetime.now(UTC).isoformat(timespec="seconds"), find_author(pipeline.root)
    fresh = {
        name: Accepted(
            model=ports.find_measured(actions[name]) if (ports := _find_measured_ports(pipeline, name)) else "",
            metrics={
                key: drop_comparisons(_check_finite(name, key, metric)) for key, metric in actions[name].metrics.items()
            },
            host=actions[name].host,
            date=date,
            who=who,
            run=result.run,
            inputs=ports.list_companions(actions[name]) if ports else {},
            setup=group_by_kind(ports.list_setup(actions[name])) if ports else {},
        )
        for name in measured
    }
    before = read(pipeline)
    names = {stage.id for stage in pipeline.stages}
    kept = {name: item for name, item in before.stages.items() if name in names} if before else {}
    mask = Mask.of(pipeline.private)
    settings = {
        stage.stage: group_by_kind(_list_settings(actions[stage.stage], mask))
        for stage in result.stages
        if stage.stage in actions
    }
    kept_settings = {name: item for name, item in before.settings.items() if name in names} if before else {}
    return Baseline(pipeline.name, kept | fresh, kept_settings | settings)


def list_left_out(pipeline: Pipeline, result: RunResult) -> tuple[str, ...]:
    """Return the stages with gates that a run did not measure, without those that this machine skips."""
    present = {stage.stage for stage in result.stages if stage.metrics or stage.outcome == "skipped"}
    return tuple(stage.id for stage in pipeline.stages if stage.gates and stage.id not in present)


def drop(pipeline: Pipeline) -> bool:
    """Remove the baseline file; return whether there was one. StoreError if it cannot be removed."""
    path = locate_baseline(pipeline.file)
    with convert_os_errors("remove the baseline", path, WRITABLE_CHECKOUT):
        if not stat_presence(path):
            return False
        path.unlink()
    return True


def diff(baseline: Baseline, pipeline: Pipeline, actions: Mapping[str, Action]) -> tuple[Difference, ...]:
    """Return every accepted and current figure, by stage in the pipeline's order, then by name."""
    order = [stage.id for stage in pipeline.stages]
    gone = [name for name in sorted(baseline.stages) if name not in order]
    return tuple(row for name in [*order, *gone] for row in _iter_differences(baseline, pipeline, actions, name))


def drop_comparisons(metric: Metric) -> Metric:
    """Return a figure without its comparisons."""
    return replace(metric, reference=None, baseline=None, references={})


def _list_settings(action: Action, mask: Mask) -> Components:
    """Return the kind and the parameters of a stage, without those that hold a secret: the file is committed."""
    return tuple(
        item
        for item in action.components
        if item.kind in (ComponentKind.KIND, ComponentKind.PARAMETER) and mask.hide_in_text(item.value) == item.value
    )


def _find_measured_ports(pipeline: Pipeline, stage: str) -> Ports | None:
    """Return the ports of a stage whose figures are those of its input model; None if it makes an artifact."""
    spec = pipeline.kinds[pipeline.stage(stage).uses].spec
    return Ports.of(spec, pipeline.stage(stage)) if spec.output == "metrics" else None


def _require_good(pipeline: Pipeline, result: StageResult) -> None:
    if result.outcome in ("failed", "blocked"):
        raise UsageError(
            "only a run in which every stage is up to date can be accepted",
            why=f"{result.stage} {'failed' if result.outcome == 'failed' else 'did not run'}",
            hint=f"orun {quote(pipeline.file)}",
        )


def _check_finite(stage: str, name: str, metric: Metric) -> Metric:
    if not math.isfinite(metric.value):
        raise UsageError(f"{name} of {stage} is {metric.value}, which is no figure to accept")
    return metric


def find_author(folder: Path) -> str:
    """Return who accepts: the name that git knows, else the login, else (in a container) the number of the user."""
    import getpass

    from orun.history.git_revision import run_git

    try:
        return run_git(folder, "config", "user.name") or getpass.getuser()
    except (KeyError, OSError):  # nobody of that number is known here
        return f"user {os.getuid()}"


def _iter_differences(
    baseline: Baseline, pipeline: Pipeline, actions: Mapping[str, Action], name: str
) -> Iterator[Difference]:
    old, action = baseline.stages.get(name), actions.get(name)
    before: Mapping[str, Metric] = old.metrics if old else {}
    now: Mapping[str, Metric] = action.metrics if action else {}
    changed = False
    if old and old.model and action and (ports := _find_measured_ports(pipeline, name)):
        changed = old.model != ports.find_measured(action)
    for metric in sorted({*before, *now}):
        was, current = before.get(metric), now.get(metric)
        yield Difference(
            stage=name,
            metric=metric,
            unit=(now.get(metric) or before[metric]).unit,
            accepted=was.value if was else None,
            current=current.value if current else None,
            model_changed=changed,
        )
