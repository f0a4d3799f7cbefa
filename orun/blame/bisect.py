"""Bisect: the changes between a good run and a bad run that cause the difference."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orun.blame import messages
from orun.blame.advice import advise
from orun.blame.changes import (
    Change,
    FixedDifference,
    list_changes,
    list_fixed,
    list_publishing_stages,
    list_stages_up_to,
)
from orun.blame.commits import CommitList, list_commits
from orun.blame.delta_debugging import Outcome, find_causes
from orun.blame.env_changes import Variables
from orun.blame.partial_build import PartialBuilder, Symptom
from orun.blame.run_snapshot import RunSnapshot
from orun.blame.versions import Versions
from orun.core.open_gates import list_failed_gates
from orun.core.verdict import Verdict
from orun.environment.call_cache import forget
from orun.errors import UsageError
from orun.eventlog import Listener, ignore
from orun.pipeline.model import Gate, iter_gates
from orun.store import Store
from orun.store.layout import store_option

ENDS = ("good", "bad")  # expected outcome of the good run without changes, and with all

Condition = tuple[str, str, str, str]  # stage, metric, rule and scope of a gate

BUILT = {"good": "built here, it is good", "bad": "built here, it is bad", "unresolved": "it cannot be built here"}


@dataclass(frozen=True)
class Bisection:
    """Result of a bisection.

    Attributes:
        good, bad: ids of the runs.
        symptom: the symptom of the bad run.
        sentence: the answer.
        causes: sets of changes, each of which makes the good run bad by itself; all changes of a set are needed.
        changes: every change that was considered.
        fixed: differences that cannot be tried here, or did not need to be.
        built: number of partial builds.
        advice: commands for differences that could not be tried, if no cause is known.
        commits: commits between the runs that touch the causes, or all changes if no cause is known.
    """

    good: str
    bad: str
    symptom: str
    sentence: str
    causes: tuple[tuple[str, ...], ...]
    changes: tuple[str, ...]
    fixed: tuple[str, ...]
    built: int
    advice: tuple[str, ...] = ()
    commits: CommitList = field(default_factory=CommitList)


def bisect(store: Store, good: str, bad: str, gate: str = "", listener: Listener = ignore) -> Bisection:
    """Find the changes that turned a good run into a bad one, by partial builds.

    Args:
        store: holds both runs and the partial builds.
        good: id of the good run, or an unambiguous prefix of it.
        bad: id of the bad run, likewise.
        gate: `stage.metric` of a gate; if empty, the first that only the bad run fails.
        listener: receives the events of the runs.

    Raises:
        UsageError: if there is no such run or gate, nothing is worse in the bad run, or a file is lost.
    """
    forget()  # what is installed may have changed since the runs
    with tempfile.TemporaryDirectory(prefix="orun-bisect-") as folder:
        before = RunSnapshot.read(store, good, Path(folder, "good"))
        after = RunSnapshot.read(store, bad, Path(folder, "bad"))
        option = store_option(store.root, Path.cwd())
        symptom = _find_symptom(before, after, gate, f"{before.run} {after.run}{option}")
        stages = list_stages_up_to(before.pipeline, symptom.stage) | list_stages_up_to(after.pipeline, symptom.stage)
        variables = Variables.between(before, after, stages)
        fixed: Sequence[FixedDifference] = variables.filter_fixed(list_fixed(before, after, stages))
        builder = PartialBuilder(before, after, symptom, store, variables, listener)
        changes = (*list_changes(before, after, stages), *symptom.changes, *variables.changes)
        ends = (builder.test(()), builder.test(changes))
        earlier_builds = 0  # before versions of packages were tried
        if ends != ENDS:  # a package may be the cause: try the versions of both runs
            versions = Versions.between(before, after, stages).build(listener)
            fixed = versions.filter_fixed(fixed)
            if versions.changes:
                earlier_builds = len(builder.outcomes)
                builder = replace(builder, versions=versions, outcomes={})
                changes = (*changes, *versions.changes)
                ends = (builder.test(()), builder.test(changes))
        causes = find_causes(changes, builder.test) if ends == ENDS else []
        guilty = [change for cause in causes for change in cause]
        return Bisection(
            good=before.run,
            bad=after.run,
            symptom=_format_title(symptom),
            sentence=_format_sentence(symptom, changes, fixed, ends, causes),
            causes=tuple(tuple(map(str, cause)) for cause in causes),
            changes=tuple(map(str, changes)),
            fixed=tuple(dict.fromkeys(map(str, fixed))),
            built=earlier_builds + len(builder.outcomes),
            advice=() if causes else tuple(advise(fixed, variables.wanted, before.run, after.run, option)),
            commits=list_commits(before, after, guilty or changes),
        )


def _find_symptom(good: RunSnapshot, bad: RunSnapshot, name: str, runs: str) -> Symptom:
    """Return the symptom of a gate by name; without one, the first stage or gate that fails only in the bad run.

    `runs` is how a command names both.
    """
    if name:
        return _find_named_symptom(good, bad, name, runs)
    publishers = {
        stage.id: publishing[0]
        for stage in bad.pipeline.stages
        if (publishing := list_publishing_stages(bad.pipeline, stage.id))
    }
    failed = [
        stage.stage
        for stage in bad.record.stages
        if stage.outcome == "failed"
        and not any(result.stage == stage.stage and result.outcome == "failed" for result in good.record.stages)
    ]
    for stage_id in failed:
        if stage_id not in publishers:
            return Symptom(stage_id, None)
    passed = {_identify(verdict.stage, verdict) for verdict in good.record.verdicts if verdict.outcome == "passed"}
    for verdict in list_failed_gates(bad.record.verdicts):
        condition = _identify(verdict.stage, verdict)
        gate = _find_gate(bad, condition)
        if gate and condition in passed and verdict.stage not in publishers:
            return Symptom(verdict.stage, gate, earlier=_find_gate(good, condition))
    for stage_id in failed:  # all of them publish
        text = messages.refuse_publishing(stage_id, publishers[stage_id])
        raise UsageError(text, hint=f"orun diff {runs}")
    known = "every stage and gate that fails there failed, or was not judged, in the other run as well"
    raise UsageError(
        f"nothing is worse in {bad.run} than in {good.run}",
        why=known if bad.record.failed else "no stage and no gate failed there",
        hint="name a gate whose metric differs: --gate STAGE.METRIC",
    )


def _find_named_symptom(good: RunSnapshot, bad: RunSnapshot, name: str, runs: str) -> Symptom:
    """Return the symptom of a named gate. If both runs have the same verdict, the metric's value decides."""
    for stage in bad.pipeline.stages:
        for gate in iter_gates(stage.gates):
            if f"{stage.id}.{gate.metric}" != name:
                continue
            if publishers := list_publishing_stages(bad.pipeline, stage.id):
                text = messages.refuse_publishing(stage.id, publishers[0])
                raise UsageError(text, hint=f"orun diff {runs}")
            values = [_read_value(run, stage.id, gate.metric) for run in (good, bad)]
            if values[0] is None or values[1] is None:
                raise UsageError(f"{name} was not measured in both runs", hint=f"orun bisect {runs}")
            verdicts = [_read_verdict(run, stage.id, gate) for run in (good, bad)]
            differ = verdicts == ["passed", "failed"]
            if not differ and values[0] == values[1]:
                raise UsageError(f"{name} is {values[0]:.6g} in both runs", hint=f"orun diff {runs}")
            earlier = _find_gate(good, _identify(stage.id, gate))
            return Symptom(stage.id, gate, None if differ else (values[0], values[1]), earlier)
    gates = dict.fromkeys(
        f"{stage.id}.{gate.metric}" for stage in bad.pipeline.stages for gate in iter_gates(stage.gates)
    )
    raise UsageError(f"there is no gate {name!r} in {bad.run}", why=f"it has {', '.join(gates) or 'none'}")


def _read_value(run: RunSnapshot, stage: str, metric: str) -> float | None:
    metrics = next((result.metrics for result in run.record.stages if result.stage == stage), {})
    return metrics[metric].value if metric in metrics else None


def _read_verdict(run: RunSnapshot, stage: str, gate: Gate) -> str:
    condition = _identify(stage, gate)
    verdicts = (v.outcome for v in run.record.verdicts if _identify(v.stage, v) == condition)
    return next(verdicts, "undecided")


def _find_gate(run: RunSnapshot, condition: Condition) -> Gate | None:
    gates = ((stage.id, gate) for stage in run.pipeline.stages for gate in iter_gates(stage.gates))
    return next((gate for stage, gate in gates if _identify(stage, gate) == condition), None)


def _identify(stage: str, gate: Gate | Verdict) -> Condition:
    """Return what identifies a gate in two runs, whatever its threshold."""
    return stage, gate.metric, gate.rule, gate.scope


def _format_title(symptom: Symptom) -> str:
    if symptom.gate is None:
        return f"{symptom.stage} fails"
    gate = symptom.gate
    if symptom.values:
        return f"{symptom.stage} {gate.metric} goes from {symptom.values[0]:.6g} to {symptom.values[1]:.6g}"
    return f"{symptom.stage} {gate.metric} {gate.rule} {gate.threshold.text}{gate.scope} fails"


def _format_sentence(
    symptom: Symptom,
    changes: Sequence[Change],
    fixed: Sequence[FixedDifference],
    ends: tuple[Outcome, Outcome],
    causes: Sequence[Sequence[Change]],
) -> str:
    title = _format_title(symptom)
    also = f"; other differences: {'; '.join(dict.fromkeys(map(str, fixed))) or 'none that the runs recorded'}"
    if not changes:
        return f"{title}, and the runs have no differences that can be tried here ({BUILT[ends[1]]}){also}"
    if ends[1] != "bad":
        return f"{title}, but not with the bad run's parameters and code on this machine today{also}"
    if ends[0] == "bad":
        return f"{title} with the good run's parameters and code too, on this machine today{also}"
    if not causes:
        return f"{title}, but the good run cannot be built any more, so the cause is unknown{also}"
    listed = ", and by itself also ".join(_describe_cause(cause) for cause in causes)
    rest = len(changes) - sum(map(len, causes))
    irrelevant = f"; {rest} other change{'s do' if rest > 1 else ' does'} not matter" if rest else ""
    return f"{title} because of {listed}{irrelevant}"


def _describe_cause(cause: Sequence[Change]) -> str:
    if len(cause) == 1:
        return str(cause[0])
    return f"{len(cause)} changes together, none of which suffices alone ({'; '.join(map(str, cause))})"
