"""Sentences that an investigation ends with."""

from __future__ import annotations

from collections.abc import Sequence

from orun.blame.diagnosis import Diagnosis, Place, Proof
from orun.blame.origin import Past
from orun.core.metrics import Comparison, Unit
from orun.gates.regression import BASELINE
from orun.text.units import show
from orun.text.wording.reasons import sentences

NEARLY_ALL = 0.95


def amount(value: float, unit: Unit) -> str:
    """A difference of a metric: points for a proportion, else in its unit."""
    if unit == "ratio":
        return f"{abs(100 * value):.3g} points"
    return show(abs(value), unit)


def nobody(found: Diagnosis) -> str:
    """No stage made it worse."""
    known = [one for one in found.levels if one.value is not None]
    if not known:
        why = found.levels[0].why if found.levels else "no model leads to it"
        return f"{found.metric} could not be measured at any stage before `{found.stage}`: {why}"
    if len(known) < len(found.levels):
        listed = ", ".join(f"{show(one.value or 0.0, found.unit)} at `{one.stage}`" for one in known)
        return f"{found.metric} is {listed}, which does not tell who did it: the others could not be measured"
    first = known[0]
    value = show(first.value or 0.0, found.unit)
    return f"{found.metric} is {value} at `{first.stage}` already, and no stage after it made it worse"


def given(stage: str, giver: str) -> str:
    """Why a stage is not run to find something out."""
    name = f"{stage} comes after {giver}, which" if stage != giver else stage
    return f"{name} gives a release away, and does not do so to find something out"


def stage_alone(found: Diagnosis) -> str:
    """The stage, without a node."""
    if _sign(found) > 0:
        return f"`{found.culprit}` lost {amount(found.lost, found.unit)} of {found.metric}"
    return f"`{found.culprit}` added {amount(found.lost, found.unit)} to {found.metric}"


def started(found: Diagnosis) -> str:
    """The stage, after what is worse: that the gate fails without it."""
    first = next(one for one in found.levels if one.value is not None)
    if first.passes is not False or first.stage == found.culprit:
        return stage_alone(found)
    value = show(first.value or 0.0, found.unit)
    return f"the gate fails at `{first.stage}` already, where {found.metric} is {value}; {stage_alone(found)}"


def origin(found: Diagnosis, past: Past) -> str:
    """The first model itself got worse, and what changed; with what the model of then does in its place."""
    start = f"{stage_alone(found)} since {past.run}: {_changes(past)}"
    if found.proof is None or found.proof.value is None:
        return f"{start}; not verified: {found.proof.why if found.proof else 'there was no time'}"
    return f"{start}; {_of_then(found, found.proof)}"


def another(past: Past, found: Diagnosis | None = None, proof: Proof | None = None) -> str:
    """The first model is another one, beside what else was found."""
    start = f"`{past.stage}` is not the model that it was in {past.run} ({_changes(past)})"
    if not past.here:
        return f"{start}, which is not in the store any more"
    return f"{start}: {_of_then(found, proof)}" if found and proof and proof.value is not None else start


def _of_then(found: Diagnosis, proof: Proof) -> str:
    value = show(proof.value or 0.0, found.unit)
    return f"built of its model of then, {found.metric} is {value}{_gate(proof)}"


def _changes(past: Past) -> str:
    return "; ".join(sentences(past.changes)) or "nothing that the runs recorded differs"


def accuracy(found: Diagnosis, before: str) -> str:
    """The stage, the nodes, and what the proof shows."""
    places = found.places[: found.chosen]
    start = started(found)
    if not places:
        return f"{start}; no node brings more of the error than others: the worst is {_one(found.places[0])}"
    if len(places) == 1:
        where = f"{_percent(places)} of the error enters at {places[0].node}"
    else:
        listed = ", ".join(_one(place) for place in places)
        where = f"{_percent(places)} of the error enters at {len(places)} nodes: {listed}"
    if not (found.proof and found.proof.how == "excluded") and len(places) == 1:
        where += _instead(places[0]) + _agreement(places[0])
    return f"{start}; {where}; {_proof(found, found.proof, before)}"


def _one(place: Place) -> str:
    return f"{place.node} ({_percent([place])})"


def _percent(places: Sequence[Place]) -> str:
    return f"{100 * sum(place.share for place in places):.0f} %"


def _instead(place: Place) -> str:
    types = list(dict.fromkeys(place.now))
    return f", where `{place.op}` is now {', '.join(types)}" if types and types != [place.op] else ""


def _agreement(place: Place) -> str:
    if place.before is None or place.after is None:
        return ""
    return f", whose result agrees to {place.after:.0f} dB, and all before it to {place.before:.0f} dB"


def _proof(found: Diagnosis, proof: Proof | None, before: str) -> str:
    them = "it" if found.chosen == 1 else "them"
    if proof is None:
        return "not verified"
    if proof.value is None:
        return f"not verified: {proof.why}"
    after = next((one.value for one in found.levels if one.stage == found.culprit), None) or 0.0
    gained = abs(proof.value - after)
    better = (proof.value - after) * _sign(found) > 0
    doing = f"excluding {them}" if proof.how == "excluded" else f"computing {them} as {_named(before)} does"
    effect = f"brings back {amount(gained, found.unit)}" if better else "does not bring it back"
    return f"{doing} {effect}{_cost(proof)}{_gate(proof)}"


def _sign(found: Diagnosis) -> int:
    """1 where a larger value is better: the culprit's was smaller than that before it."""
    names = [one.stage for one in found.levels]
    place = names.index(found.culprit)
    earlier = [one.value for one in found.levels[:place] if one.value is not None]
    return 1 if earlier and (found.levels[place].value or 0.0) < earlier[-1] else -1


def _cost(proof: Proof) -> str:
    if proof.seconds is None:
        return ""
    if proof.seconds.low <= 0 <= proof.seconds.high:
        limit = max(abs(proof.seconds.low), abs(proof.seconds.high))
        return f" and costs no time that can be told (less than {show(limit, 's')})"
    verb = "costs" if proof.seconds.value > 0 else "saves"
    return f" and {verb} {show(abs(proof.seconds.value), 's')}"


def _gate(proof: Proof) -> str:
    return {True: "; the gate passes then", False: "; the gate still fails then", None: ""}[proof.passes]


def not_slower(found: Diagnosis, steps: Sequence[Comparison]) -> str:
    """No step made it slower by what can be told."""
    known = [one for one in found.levels if one.value is not None]
    if not steps or not known:
        why = next((one.why for one in found.levels if one.why), "there is no other model to compare it with")
        return f"what makes `{found.stage}` slow cannot be told: {why}"
    listed = ", ".join(f"`{one.stage}` {show(one.value or 0.0, 's')}" for one in known)
    return f"no stage made it slower by what can be told: {listed} in nodes"


def latency(found: Diagnosis, before: str, slow: Comparison, origin: str = "") -> str:
    """The stage, the places, and what it saves to put them right; `origin` says that the first model alone did it."""
    start = (
        f"{origin}; it takes" if origin else f"`{found.culprit}` takes"
    ) + f" {show(slow.difference.value, 's')} longer than {_named(before)} ({show(slow.ratio.value - 1, 'ratio')})"
    places = found.places[: found.chosen]
    if not places:
        return f"{start}; no node explains it"
    listed = ", ".join(_slow(place) for place in places)
    explained = "all" if sum(place.share for place in places) > NEARLY_ALL else _percent(places)
    start = f"{start}; {explained} of that is at {listed}"
    shown = found.proof is not None and found.proof.seconds is not None
    return start if origin and not shown else f"{start}; {_saved(found, before, slow)}"


def _named(stage: str) -> str:
    """A stage by its id; the accepted baseline is none of the file's."""
    return stage if stage == BASELINE else f"`{stage}`"


def _slow(place: Place) -> str:
    more = len(place.nodes) - 1
    others = f" and {more} node{'s' if more > 1 else ''} beside it" if more else ""
    return f"{place.node}{others} ({show(place.after or 0.0, 's')} for {show(place.before or 0.0, 's')})"


def _saved(found: Diagnosis, before: str, slow: Comparison) -> str:
    proof = found.proof
    if proof is None:
        return "not verified"
    if proof.seconds is None:
        return f"not verified: {proof.why}"
    them = "it" if found.chosen == 1 else "them"
    doing = f"computing {them} as {_named(before)} does"
    if proof.seconds.low <= 0:
        return f"{doing} saves no time that can be told"
    share = proof.seconds.value / slow.difference.value
    # Time of an inference here, of undisturbed nodes there: it may well be more than what was to be saved.
    return (
        f"{doing} saves {show(proof.seconds.value, 's')}, {'all' if share > NEARLY_ALL else show(share, 'ratio')} of it"
    )
