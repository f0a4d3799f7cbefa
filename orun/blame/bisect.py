"""Between a run that was good and one that was bad: the changes that did it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orun.blame import messages
from orun.blame.advice import advice
from orun.blame.changes import Change, Fixed, changes, fixed, giving, upstream
from orun.blame.commits import Between, between
from orun.blame.delta_debugging import Outcome, causes
from orun.blame.env_changes import Variables
from orun.blame.partial_build import Mixer, Symptom
from orun.blame.run_snapshot import Side
from orun.blame.versions import Versions
from orun.core.run_record import Verdict
from orun.environment.call_cache import forget
from orun.errors import UsageError
from orun.eventlog.writer import Listener, ignore
from orun.pipeline.model import Gate, conditions
from orun.store import Store

ENDS = ("good", "bad")  # what the good run must be without any change, and with all

BUILT = {"good": "built here, it is good", "bad": "built here, it is bad", "unresolved": "it cannot be built here"}


@dataclass(frozen=True)
class Bisection:
    """What was found.

    Attributes:
        good, bad: the runs.
        symptom: what is bad about the bad one.
        sentence: the answer.
        causes: sets of changes each of which makes the good run bad by itself; within one all are needed.
        changes: every change that was looked at.
        fixed: differences that cannot be mixed here, or did not have to be.
        built: mixtures that were made, and what they were.
        advice: commands that would help where nothing could be told, with what they are for.
        commits: between the two runs that touch what did it, or all that differs where that is not known.
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
    commits: Between = field(default_factory=Between)


def bisect(store: Store, good: str, bad: str, gate: str = "", listener: Listener = ignore) -> Bisection:
    """Find the changes between two runs that turned one into the other, by building what lies between.

    Args:
        store: where both runs are, and where mixtures go.
        good: id of the run that was good, or an unambiguous beginning of it.
        bad: likewise of the bad one.
        gate: `stage.metric` of the gate to look at; the first that only the bad run fails when empty.
        listener: hears what is run.

    Raises:
        UsageError: when there is no such run or gate, nothing is worse in the bad one, or a file is not to be had.
    """
    forget()  # what is installed may have changed since the runs
    with tempfile.TemporaryDirectory(prefix="orun-bisect-") as folder:
        before = Side.read(store, good, Path(folder, "good"))
        after = Side.read(store, bad, Path(folder, "bad"))
        symptom = _symptom(before, after, gate)
        stages = upstream(before.pipeline, symptom.stage) | upstream(after.pipeline, symptom.stage)
        variables = Variables.between(before, after, stages)
        others: Sequence[Fixed] = variables.left(fixed(before, after, stages))
        mixer = Mixer(before, after, symptom, store, variables, listener)
        found, ends = _ends(mixer, (*changes(before, after, stages), *variables.changes))
        built = len(mixer.tried)
        if ends != ENDS:  # it may be a package: then the versions of both runs are brought back
            versions = Versions.between(before, after, stages).had(listener)
            others = versions.left(others)
            if versions.changes:
                mixer = replace(mixer, versions=versions, tried={})
                found, ends = _ends(mixer, (*found, *versions.changes))
                built += len(mixer.tried)
        sets = causes(found, mixer.test) if ends == ENDS else []
        guilty = [change for one in sets for change in one]
        return Bisection(
            good=before.run,
            bad=after.run,
            symptom=_title(symptom),
            sentence=_sentence(symptom, found, others, ends, sets),
            causes=tuple(tuple(map(str, one)) for one in sets),
            changes=tuple(map(str, found)),
            fixed=tuple(dict.fromkeys(map(str, others))),
            built=built,
            advice=() if sets else tuple(advice(others, variables.wanted, before.run, after.run)),
            commits=between(before, after, guilty or found),
        )


def _ends(mixer: Mixer, found: Sequence[Change]) -> tuple[Sequence[Change], tuple[Outcome, Outcome]]:
    """The changes, and what the good run is without any of them and with all."""
    return found, (mixer.test(()), mixer.test(found))


def _symptom(good: Side, bad: Side, asked: str) -> Symptom:
    if asked:
        return _asked(good, bad, asked)
    given = {one.id: gave[0] for one in bad.pipeline.stages if (gave := giving(bad.pipeline, one.id))}
    for one in bad.record.stages:
        if one.outcome == "failed" and one.stage not in given and not _outcome(good, one.stage, "failed"):
            return Symptom(one.stage, None)
    passed = {_condition(one.stage, one) for one in good.record.verdicts if one.outcome == "passed"}
    for verdict in bad.record.verdicts:
        condition = _condition(verdict.stage, verdict)
        gates = conditions(bad.pipeline.stage(verdict.stage).gates)
        gate = next((one for one in gates if _condition(verdict.stage, one) == condition), None)
        if verdict.outcome == "failed" and gate and condition in passed and verdict.stage not in given:
            return Symptom(verdict.stage, gate)
    _refuse_given(bad, good, given)
    raise UsageError(
        f"nothing is worse in {bad.run} than in {good.run}",
        why="every stage and gate that fails there failed, or was not judged, in the other run as well",
        hint="name a gate whose metric differs: --gate STAGE.METRIC",
    )


def _asked(good: Side, bad: Side, asked: str) -> Symptom:
    """The gate that was named; where it has the same verdict in both, the metric itself tells good from bad."""
    for stage in bad.pipeline.stages:
        for gate in conditions(stage.gates):
            if f"{stage.id}.{gate.metric}" != asked:
                continue
            if gave := giving(bad.pipeline, stage.id):
                raise UsageError(messages.given(stage.id, gave[0]), hint=f"orun diff {good.run} {bad.run}")
            values = [_value(side, stage.id, gate.metric) for side in (good, bad)]
            if values[0] is None or values[1] is None:
                raise UsageError(f"{asked} was not measured in both runs", hint=f"orun bisect {good.run} {bad.run}")
            verdicts = [_verdict(side, stage.id, gate) for side in (good, bad)]
            differ = verdicts == ["passed", "failed"]
            if not differ and values[0] == values[1]:
                raise UsageError(f"{asked} is {values[0]:.6g} in both runs", hint=f"orun diff {good.run} {bad.run}")
            return Symptom(stage.id, gate, None if differ else (values[0], values[1]))
    gates = dict.fromkeys(f"{one.id}.{gate.metric}" for one in bad.pipeline.stages for gate in conditions(one.gates))
    raise UsageError(f"there is no gate {asked!r} in {bad.run}", why=f"it has {', '.join(gates) or 'none'}")


def _refuse_given(bad: Side, good: Side, given: Mapping[str, str]) -> None:
    """Say it where all that is worse are stages that give something away."""
    for one in bad.record.stages:
        if one.outcome == "failed" and one.stage in given and not _outcome(good, one.stage, "failed"):
            raise UsageError(messages.given(one.stage, given[one.stage]), hint=f"orun diff {good.run} {bad.run}")


def _outcome(side: Side, stage: str, outcome: str) -> bool:
    return any(one.stage == stage and one.outcome == outcome for one in side.record.stages)


def _value(side: Side, stage: str, metric: str) -> float | None:
    found = next((one.metrics for one in side.record.stages if one.stage == stage), {})
    return found[metric].value if metric in found else None


def _verdict(side: Side, stage: str, gate: Gate) -> str:
    same = _condition(stage, gate)
    return next((one.outcome for one in side.record.verdicts if _condition(one.stage, one) == same), "undecided")


def _condition(stage: str, gate: Gate | Verdict) -> tuple[str, str, str, str]:
    """What makes a gate the same one in two runs, whatever its threshold."""
    return stage, gate.metric, gate.rule, gate.scope


def _title(symptom: Symptom) -> str:
    if symptom.gate is None:
        return f"{symptom.stage} fails"
    gate = symptom.gate
    if symptom.values:
        return f"{symptom.stage} {gate.metric} goes from {symptom.values[0]:.6g} to {symptom.values[1]:.6g}"
    return f"{symptom.stage} {gate.metric} {gate.rule} {gate.threshold.text}{gate.scope} fails"


def _sentence(
    symptom: Symptom,
    found: Sequence[Change],
    others: Sequence[Fixed],
    ends: tuple[Outcome, Outcome],
    sets: Sequence[Sequence[Change]],
) -> str:
    """The answer; what cannot be told is said."""
    title = _title(symptom)
    besides = f"; besides differ: {'; '.join(dict.fromkeys(map(str, others))) or 'nothing that the runs recorded'}"
    if not found:
        return f"{title}, and the runs do not differ in what can be mixed ({BUILT[ends[1]]}){besides}"
    if ends[1] != "bad":
        return f"{title}, but not with the bad run's parameters and code on this machine as it is now{besides}"
    if ends[0] == "bad":
        return f"{title} with the good run's parameters and code too, on this machine as it is now{besides}"
    if not sets:
        return f"{title}, and the good run cannot be built any more, so that nothing can be told{besides}"
    listed = ", and by itself also ".join(_together(one) for one in sets)
    rest = len(found) - sum(map(len, sets))
    others_text = f"; {rest} other change{'s do' if rest > 1 else ' does'} not matter" if rest else ""
    return f"{title} because of {listed}{others_text}"


def _together(one: Sequence[Change]) -> str:
    if len(one) == 1:
        return str(one[0])
    return f"{len(one)} changes together, none of which does it alone ({'; '.join(map(str, one))})"
