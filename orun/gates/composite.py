"""Gates judged together: in groups, and slice by slice of a dataset."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from orun.core.metrics import Metric
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.core.verdict import GateOutcome, Verdict
from orun.gates.finding import Finding
from orun.pipeline.model import Gate, Group

WORST_FIRST: Sequence[GateOutcome] = ("failed", "undecided", "no baseline", "passed")

Find = Callable[[Gate], Finding]


def iter_verdicts(stage: str, gate: Gate | Group, find: Find) -> Iterator[Verdict]:
    """Yield the verdict of a gate; of a group its own, then those of its members, which fail no run by themselves."""
    if isinstance(gate, Gate):
        yield _build_verdict(stage, gate, find(gate))
        return
    members = [tuple(iter_verdicts(stage, member, find)) for member in gate.members]
    yield _judge_group(stage, gate, [member[0] for member in members])
    for verdict in (verdict for member in members for verdict in member):
        yield replace(verdict, fails=False, blocks=False, depth=verdict.depth + 1)


def combine(rule: str, outcomes: Iterable[GateOutcome]) -> GateOutcome:
    """Return the outcome of a group: `any` passes with one member that passed, `all` fails with one that failed.

    Otherwise the members that were not decided could tip it: it is undecided, or has no baseline.
    """
    present = set(outcomes)
    order = ("passed", "undecided", "no baseline", "failed") if rule == "any" else WORST_FIRST
    return next((outcome for outcome in order if outcome in present), order[-1])


def _build_verdict(stage: str, gate: Gate, finding: Finding) -> Verdict:
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
        finding=finding.finding,
        position=gate.position,
        scope=gate.scope,
        caveats=finding.caveats,
        blocks=fails[finding.outcome] or (finding.outcome == "undecided" and gate.undecided == "block"),
    )


def _judge_group(stage: str, group: Group, members: Sequence[Verdict]) -> Verdict:
    outcome = combine(group.rule, [member.outcome for member in members])
    open_members = [member for member in members if member.outcome == outcome not in ("passed", "failed")]
    return Verdict(
        stage=stage,
        metric=group.name,
        rule=group.rule,
        threshold="",
        outcome=outcome,
        fails=outcome == "failed" or any(member.fails for member in open_members),
        measured=None,
        unit="",
        interval=None,
        finding=_tally(members),
        position=group.position,
        blocks=outcome == "failed" or any(member.blocks for member in open_members),
    )


def _tally(members: Sequence[Verdict]) -> Reason:
    order: tuple[GateOutcome, ...] = ("passed", "failed", "undecided", "no baseline")
    names = [(member.outcome, f"{member.metric} {member.condition}".strip()) for member in members]
    gates = {outcome: [name for its, name in names if its == outcome] for outcome in order}
    return build_reason(ReasonCode.GROUP, gates={outcome: listed for outcome, listed in gates.items() if listed})


def judge_by_slice(gate: Gate, metrics: Mapping[str, Metric], find: Find, accepted: Collection[str]) -> Finding:
    """Judge a gate on every slice: all must pass.

    The metric of a slice is called `accuracy[label=3]`. `accepted` are the metrics of the baseline, for a gate against
    it.
    """
    slices = _list_slices(gate, metrics)
    if not slices:
        sliced = any(f"[{gate.by}=" in name for name in metrics)
        return Finding("failed", build_reason(ReasonCode.SLICES_MISSING, metric=gate.metric, by=gate.by, sliced=sliced))
    findings = {name: find(replace(gate, metric=name, by="")) for name in slices}
    for name in _list_slices(gate, accepted).keys() - slices.keys():
        findings[name] = Finding("undecided", build_reason(ReasonCode.SLICE_GONE, metric=name))
    outcome = combine("all", [finding.outcome for finding in findings.values()])
    ranked = _sort_worst_first(gate, findings)
    worst, telling = ranked[0]
    counts = Counter(finding.outcome for finding in findings.values())
    smallest = min(slices, key=lambda name: metrics[name].examples)
    compared = outcome == "passed" and telling.measured is not None and len(findings) > 1
    failures: list[Reason] = []
    for _, finding in ranked:
        if finding.outcome != "passed" and finding.finding not in failures:
            failures.append(finding.finding)
    summary = build_reason(
        ReasonCode.SLICES,
        *failures,
        slices=len(findings),
        outcomes={name: counts[name] for name in ("passed", *WORST_FIRST[:-1]) if counts[name]},
        smallest=slices[smallest],
        examples=metrics[smallest].examples,
        without=_list_slices_without(gate, metrics) or None,
        worst=slices[worst] if compared else None,
        value=telling.measured if compared else None,
        unit=telling.unit if compared else None,
        threshold=gate.threshold.text,
    )
    caveats = next((finding.caveats for finding in findings.values() if finding.caveats), ())
    return replace(telling, finding=summary, caveats=caveats)


def _list_slices(gate: Gate, names: Iterable[str]) -> dict[str, str]:
    """Return the metrics of a gate's slices, and the value of the field in each."""
    start, end = f"{gate.metric}[{gate.by}=", "]"
    return {name: name[len(start) : -len(end)] for name in names if name.startswith(start) and name.endswith(end)}


def _sort_worst_first(gate: Gate, findings: Mapping[str, Finding]) -> list[tuple[str, Finding]]:
    """Return the slices, failed ones first; of one outcome the slice whose figure is worst for the gate."""
    sign = 1 if gate.rule in ("min", "min_speedup") else -1

    def rank(item: tuple[str, Finding]) -> tuple[int, float]:
        value = item[1].measured
        badness = math.inf if value is None else -math.inf if math.isnan(value) else sign * value
        return WORST_FIRST.index(item[1].outcome), badness

    return sorted(findings.items(), key=rank)


def _list_slices_without(gate: Gate, metrics: Mapping[str, Metric]) -> list[str]:
    """Return slices that have other metrics and not this one: an area under a curve needs two classes."""
    field = f"[{gate.by}="
    values = dict.fromkeys(name.partition(field)[2] for name in metrics if field in name)
    return [value.removesuffix("]") for value in values if f"{gate.metric}{field}{value}" not in metrics]
