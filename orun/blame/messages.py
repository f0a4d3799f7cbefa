"""Messages of an investigation: the sentence that answers, from its findings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orun.blame.diagnosis import Diagnosis, Place, Proof
from orun.blame.origin import EarlierModel
from orun.core.metrics import Comparison, Unit
from orun.core.reason import Reason
from orun.text.lists import join_few
from orun.text.units import show
from orun.text.wording.reasons import describe_reasons

BASELINE = "the accepted baseline"  # id of the stage of an experiment that imports the accepted model
NEARLY_ALL = 0.95
CONTRADICTING = 0.25  # share of what the places promise, below which a proof contradicts them
CONTRADICTION = " (which contradicts that share)"


def show_amount(value: float, unit: Unit) -> str:
    """Return a difference of a metric: in points for a proportion, else in its unit."""
    if unit == "ratio":
        return f"{abs(100 * value):.3g} points"
    return show(abs(value), unit)


def describe_no_culprit(diagnosis: Diagnosis) -> str:
    """Say that no stage made the metric worse."""
    known = [level for level in diagnosis.levels if level.value is not None]
    if not known:
        why = diagnosis.levels[0].why if diagnosis.levels else "no model leads to it"
        return f"{diagnosis.metric} could not be measured at any stage before `{diagnosis.stage}`: {why}"
    if len(known) < len(diagnosis.levels):
        listed = ", ".join(f"{show(level.value or 0.0, diagnosis.unit)} at `{level.stage}`" for level in known)
        return f"{diagnosis.metric} is {listed}; the culprit is unknown because other stages could not be measured"
    first = known[0]
    value = show(first.value or 0.0, diagnosis.unit)
    return f"{diagnosis.metric} is {value} at `{first.stage}` already, and no stage after it made it worse"


def refuse_publishing(stage: str, publisher: str) -> str:
    """Say why a stage is not run for an investigation."""
    name = f"{stage} comes after {publisher}, which" if stage != publisher else stage
    return f"{name} publishes a release, so it does not run for an investigation"


def name_stage(diagnosis: Diagnosis) -> str:
    """Say how much the culprit made the metric worse, without its nodes."""
    if _choose_sign(diagnosis) > 0:
        return f"`{diagnosis.culprit}` lost {show_amount(diagnosis.lost, diagnosis.unit)} of {diagnosis.metric}"
    return f"`{diagnosis.culprit}` added {show_amount(diagnosis.lost, diagnosis.unit)} to {diagnosis.metric}"


def name_stage_and_start(diagnosis: Diagnosis) -> str:
    """Name the culprit; say so if the gate fails at the first model already."""
    first = next(level for level in diagnosis.levels if level.value is not None)
    if first.passes is not False or first.stage == diagnosis.culprit:
        return name_stage(diagnosis)
    value = show(first.value or 0.0, diagnosis.unit)
    return f"the gate fails at `{first.stage}` already, where {diagnosis.metric} is {value}; {name_stage(diagnosis)}"


def describe_origin(diagnosis: Diagnosis, earlier: EarlierModel) -> str:
    """Say that the first model itself got worse, what changed, and what the earlier model gives in its place."""
    start = f"{name_stage(diagnosis)} since {earlier.run}: {_describe_changes(earlier)}"
    if diagnosis.proof is None or diagnosis.proof.value is None:
        return f"{start}; not verified: {diagnosis.proof.why if diagnosis.proof else 'there was no time'}"
    return f"{start}; {_describe_result(diagnosis, diagnosis.proof)}"


def describe_changed_model(
    earlier: EarlierModel, diagnosis: Diagnosis | None = None, proof: Proof | None = None
) -> str:
    """Say that the first model has changed since the gate passed, in addition to the finding."""
    start = f"`{earlier.stage}` is not the model that it was in {earlier.run} ({_describe_changes(earlier)})"
    if not earlier.here:
        return f"{start}, and the earlier model is not in the store any more"
    if diagnosis and proof and proof.value is not None:
        return f"{start}: {_describe_result(diagnosis, proof)}"
    return start


def describe_changed_measurement(stage: str, run: str, changes: Sequence[Reason]) -> str:
    """Say what changed in what a measurement depends on, such as its dataset, since the gate passed."""
    return f"the gate passed in {run}; since then, of `{stage}`: {join_few(describe_reasons(changes), separator='; ')}"


def _describe_result(diagnosis: Diagnosis, proof: Proof) -> str:
    value = show(proof.value or 0.0, diagnosis.unit)
    return f"built from its earlier model, {diagnosis.metric} is {value}{_describe_gate(proof)}"


def _describe_changes(earlier: EarlierModel) -> str:
    return "; ".join(describe_reasons(earlier.changes)) or "nothing that the runs recorded differs"


def describe_accuracy(diagnosis: Diagnosis, before: str) -> str:
    """Name the stage and its nodes, and say what the proof shows."""
    places = diagnosis.places[: diagnosis.chosen]
    start = name_stage_and_start(diagnosis)
    if not places:
        return f"{start}; no node stands out: the worst is {_format_share(diagnosis.places[0])}"
    if len(places) == 1:
        error = f"{_format_percent(places)} of the error enters at {places[0].node}"
    else:
        listed = ", ".join(_format_share(place) for place in places)
        error = f"{_format_percent(places)} of the error enters at {len(places)} nodes: {listed}"
    if not (diagnosis.proof and diagnosis.proof.how == "excluded") and len(places) == 1:
        error += _describe_replaced_operator(places[0]) + _describe_agreement(places[0])
    return f"{start}; {error}; {_describe_proof(diagnosis, diagnosis.proof, before)}"


def _format_share(place: Place) -> str:
    return f"{place.node} ({_format_percent([place])})"


def _format_percent(places: Sequence[Place]) -> str:
    return f"{100 * sum(place.share for place in places):.0f} %"


def _describe_replaced_operator(place: Place) -> str:
    types = list(dict.fromkeys(place.now))
    return f", where `{place.op}` is now {', '.join(types)}" if types and types != [place.op] else ""


def _describe_agreement(place: Place) -> str:
    if place.before is None or place.after is None:
        return ""
    return f" (SQNR {place.after:.0f} dB there, {place.before:.0f} dB or more before it)"


def _describe_proof(diagnosis: Diagnosis, proof: Proof | None, before: str) -> str:
    them = "it" if diagnosis.chosen == 1 else "them"
    if proof is None:
        return "not verified"
    if proof.value is None:
        return f"not verified: {proof.why}"
    after = next((level.value for level in diagnosis.levels if level.stage == diagnosis.culprit), None) or 0.0
    gained = abs(proof.value - after)
    better = (proof.value - after) * _choose_sign(diagnosis) > 0
    doing = f"excluding {them}" if proof.how == "excluded" else f"computing {them} as in {_quote(before)}"
    effect = f"brings back {show_amount(gained, diagnosis.unit)}" if better else "does not bring it back"
    contradicts = (gained if better else 0.0) < CONTRADICTING * _sum_shares(diagnosis) * diagnosis.lost
    return f"{doing} {effect}{CONTRADICTION if contradicts else ''}{_describe_cost(proof)}{_describe_gate(proof)}"


def _sum_shares(diagnosis: Diagnosis) -> float:
    """Return the share of the error or slow-down that the chosen places have."""
    return sum(place.share for place in diagnosis.places[: diagnosis.chosen])


def _choose_sign(diagnosis: Diagnosis) -> int:
    """Return 1 if a larger value is better, so that the culprit's is smaller than the one before it, else -1."""
    index = [level.stage for level in diagnosis.levels].index(diagnosis.culprit)
    before = [level.value for level in diagnosis.levels[:index] if level.value is not None]
    return 1 if before and (diagnosis.levels[index].value or 0.0) < before[-1] else -1


def _describe_cost(proof: Proof) -> str:
    if proof.seconds is None:
        return ""
    if proof.seconds.low <= 0 <= proof.seconds.high:
        limit = max(abs(proof.seconds.low), abs(proof.seconds.high))
        within = f" (less than {show(limit, 's')})" if math.isfinite(limit) else ""
        return f" and costs no measurable time{within}"
    verb = "costs" if proof.seconds.value > 0 else "saves"
    return f" and {verb} {show(abs(proof.seconds.value), 's')}"


def _describe_gate(proof: Proof) -> str:
    return {True: "; the gate then passes", False: "; the gate still fails", None: ""}[proof.passes]


def describe_not_slower(diagnosis: Diagnosis, steps: Sequence[Comparison]) -> str:
    """Say that no stage made the model measurably slower."""
    known = [level for level in diagnosis.levels if level.value is not None]
    if not steps or not known:
        why = next((level.why for level in diagnosis.levels if level.why), "there is no other model to compare it with")
        return f"what makes `{diagnosis.stage}` slow is unknown: {why}"
    listed = ", ".join(f"`{level.stage}` {show(level.value or 0.0, 's')}" for level in known)
    return f"no stage made it measurably slower: {listed} in nodes"


def describe_latency(diagnosis: Diagnosis, before: str, slow: Comparison, origin: str = "") -> str:
    """Name the stage and its nodes, and say what restoring them saves; `origin` says if the first model alone is it."""
    start = (
        f"{origin}; it takes" if origin else f"`{diagnosis.culprit}` takes"
    ) + f" {show(slow.difference.value, 's')} longer than {_quote(before)} ({show(slow.ratio.value - 1, 'ratio')})"
    places = diagnosis.places[: diagnosis.chosen]
    if not places:
        return f"{start}; no node explains it"
    listed = ", ".join(describe_slow(place) for place in places)
    explained = "all" if sum(place.share for place in places) > NEARLY_ALL else _format_percent(places)
    start = f"{start}; {explained} of that is at {listed}"
    shown = diagnosis.proof is not None and diagnosis.proof.seconds is not None
    return start if origin and not shown else f"{start}; {_describe_saving(diagnosis, before, slow)}"


def _quote(stage: str) -> str:
    """Quote a stage's id; the accepted baseline is not a stage of the file."""
    return stage if stage == BASELINE else f"`{stage}`"


def describe_slow(place: Place) -> str:
    """Name a place that got slower, with its neighbours and both times."""
    more = len(place.nodes) - 1
    neighbours = f" and {more} more node{'s' if more > 1 else ''}" if more else ""
    return f"{place.node}{neighbours} ({show(place.after or 0.0, 's')} for {show(place.before or 0.0, 's')})"


def _describe_saving(diagnosis: Diagnosis, before: str, slow: Comparison) -> str:
    proof = diagnosis.proof
    if proof is None:
        return "not verified"
    if proof.seconds is None:
        return f"not verified: {proof.why}"
    them = "it" if diagnosis.chosen == 1 else "them"
    doing = f"computing {them} as in {_quote(before)}"
    contradicts = proof.seconds.high < CONTRADICTING * _sum_shares(diagnosis) * slow.difference.value
    ending = CONTRADICTION if contradicts else ""
    if proof.seconds.low <= 0:
        return f"{doing} saves no measurable time{ending}"
    share = proof.seconds.value / slow.difference.value
    # The saving is that of an inference, the slow-down that of undisturbed nodes: the saving may be larger.
    part = "all" if share > NEARLY_ALL else show(share, "ratio")
    return f"{doing} saves {show(proof.seconds.value, 's')}, {part} of it{ending}"
