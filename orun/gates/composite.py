"""Gates that are judged together: in groups, and slice by slice of a dataset."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from orun.core.metrics import Metric
from orun.core.run_record import GateOutcome, Verdict
from orun.core.serialization import replace
from orun.gates.finding import Finding
from orun.pipeline.model import Gate, Group
from orun.text.units import amount

SHOWN = 5  # slices of which a sentence tells the figures
WORST_FIRST: Sequence[GateOutcome] = ("failed", "undecided", "no baseline", "passed")

Find = Callable[[Gate], Finding]


def verdicts(stage: str, gate: Gate | Group, find: Find) -> Iterator[Verdict]:
    """The verdict of a gate; of a group its own, then those of its members, which fail no run by themselves.

    Args:
        stage: the id of the stage.
        gate: what is to be judged.
        find: judges a single gate.
    """
    if isinstance(gate, Gate):
        yield _verdict(stage, gate, find(gate))
        return
    members = [tuple(verdicts(stage, member, find)) for member in gate.members]
    yield _together(stage, gate, [found[0] for found in members])
    for verdict in (one for found in members for one in found):
        yield replace(verdict, fails=False, blocks=False, depth=verdict.depth + 1)


def together(rule: str, outcomes: Iterable[GateOutcome]) -> GateOutcome:
    """Return the outcome of a group: `any` passes with one member that passed, `all` fails with one that failed.

    Otherwise the members that were not decided could tip it: it is undecided, or has no baseline.
    """
    found = set(outcomes)
    order = ("passed", "undecided", "no baseline", "failed") if rule == "any" else WORST_FIRST
    return next((outcome for outcome in order if outcome in found), order[-1])


def _verdict(stage: str, gate: Gate, finding: Finding) -> Verdict:
    fails = {"undecided": gate.undecided == "fail", "no baseline": gate.strict, "failed": True, "passed": False}
    return Verdict(
        stage=stage,
        metric=gate.metric,
        rule=gate.rule,
        threshold=gate.threshold.text,
        outcome=finding.outcome,
        fails=fails[finding.outcome],
        measured=finding.measured,
        unit=finding.unit,
        interval=finding.interval,
        why=finding.why,
        position=gate.position,
        scope=gate.scope,
        caveat=finding.caveat,
        blocks=fails[finding.outcome] or (finding.outcome == "undecided" and gate.undecided == "block"),
    )


def _together(stage: str, group: Group, members: Sequence[Verdict]) -> Verdict:
    outcome = together(group.rule, [one.outcome for one in members])
    open_members = [one for one in members if one.outcome == outcome not in ("passed", "failed")]
    return Verdict(
        stage=stage,
        metric=group.name,
        rule=group.rule,
        threshold="",
        outcome=outcome,
        fails=outcome == "failed" or any(one.fails for one in open_members),
        measured=None,
        unit="",
        interval=None,
        why=_tally(members),
        position=group.position,
        blocks=outcome == "failed" or any(one.blocks for one in open_members),
    )


def _tally(members: Sequence[Verdict]) -> str:
    """`passed: p50 max 12ms; failed: speedup min 1.5`."""
    order: tuple[GateOutcome, ...] = ("passed", "failed", "undecided", "no baseline")
    named = {outcome: [_name(one) for one in members if one.outcome == outcome] for outcome in order}
    return "; ".join(f"{outcome}: {', '.join(names)}" for outcome, names in named.items() if names)


def _name(verdict: Verdict) -> str:
    return " ".join(part for part in (verdict.metric, verdict.condition) if part)


def by_slice(gate: Gate, metrics: Mapping[str, Metric], find: Find, accepted: Collection[str] = ()) -> Finding:
    """A gate on every slice: all must pass.

    Args:
        gate: with the field of the dataset in `by`.
        metrics: what was measured; a slice's metric is called `accuracy[label=3]`.
        find: judges the gate of one slice.
        accepted: metrics that the accepted baseline has, where the gate is against that.
    """
    start = f"{gate.metric}[{gate.by}="
    names = [name for name in metrics if name.startswith(start)]
    if not names:
        sliced = any(f"[{gate.by}=" in name for name in metrics)
        why = (
            "no slice has a figure of it; one number of your own needs `resamples`, and f1, auc and average_precision "
            "need slices of several classes: a field that copies the label is `by: label`"
            if sliced
            else "add it to `slices`"
        )
        return Finding("failed", f"{gate.metric} was not measured by {gate.by}: {why}")
    found = {name: find(replace(gate, metric=name, by="")) for name in names}
    gone = [name for name in accepted if name.startswith(start) and name not in found]
    found |= {name: Finding("undecided", f"{name} was accepted, and is not measured any more") for name in gone}
    outcome = together("all", [one.outcome for one in found.values()])
    ranked = _worst_first(gate, found)
    worst, telling = ranked[0]
    why = f"{_counts(found)}; {_smallest(names, metrics, start)}{_without(gate, metrics)}"
    if outcome == "passed" and telling.measured is not None and len(found) > 1:
        value = worst.removeprefix(start).removesuffix("]")
        why += f"; the worst is {value} with {amount(telling.measured, telling.unit, gate.threshold.text)}"
    said = list(dict.fromkeys(one.why for _, one in ranked if one.outcome != "passed"))
    more = [f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
    caveat = next((one.caveat for one in found.values() if one.caveat), "")
    return replace(telling, why="; ".join([why, *said[:SHOWN], *more]), caveat=caveat)


def _worst_first(gate: Gate, found: Mapping[str, Finding]) -> list[tuple[str, Finding]]:
    """The slices, those that fail first; of one outcome the one whose figure is worst for the gate."""
    sign = 1 if gate.rule in ("min", "min_speedup") else -1

    def place(one: tuple[str, Finding]) -> tuple[int, float]:
        value = one[1].measured
        return WORST_FIRST.index(one[1].outcome), math.inf if value is None else -math.inf if math.isnan(
            value
        ) else sign * value

    return sorted(found.items(), key=place)


def _counts(found: Mapping[str, Finding]) -> str:
    counts = Counter(one.outcome for one in found.values())
    told = [f"{counts['passed']} of {len(found)} slices passed"]
    return ", ".join([*told, *(f"{counts[outcome]} {outcome}" for outcome in WORST_FIRST[:-1] if counts[outcome])])


def _without(gate: Gate, metrics: Mapping[str, Metric]) -> str:
    """Slices that others are told of and this one is not: an area under a curve needs two classes."""
    field = f"[{gate.by}="
    values = dict.fromkeys(name.partition(field)[2] for name in metrics if field in name)
    none = [value.removesuffix("]") for value in values if f"{gate.metric}{field}{value}" not in metrics]
    return f"; {', '.join(none)} {'has' if len(none) == 1 else 'have'} no figure of it" if none else ""


def _smallest(names: Sequence[str], metrics: Mapping[str, Metric], start: str) -> str:
    """Which slice says least, because it has the fewest examples."""
    least = min(names, key=lambda name: metrics[name].examples)
    value = least.removeprefix(start).removesuffix("]")
    examples = metrics[least].examples
    return f"the smallest is {value} with {examples} {'example' if examples == 1 else 'examples'}"
