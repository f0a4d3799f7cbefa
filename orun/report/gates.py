"""Table of gates, and the next step for each gate that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orun.core.metrics import Estimate
from orun.core.open_gates import list_open_gates
from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult, StageResult
from orun.core.source_location import Position, abridge
from orun.core.verdict import GateOutcome, Unjudged, Verdict
from orun.fs.os_errors import quote
from orun.report.figures import find_position
from orun.report.run_options import find_store, format_repetition, format_run_options
from orun.report.stages import format_reasons as reasons
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal
from orun.store.layout import store_option
from orun.text.positions import OVERRIDE, format_position
from orun.text.suggestions import format_settings, show_path
from orun.text.units import show_amount, show_interval

INDENT = "  "  # of a member of a group
REGRESSION = "max_regression"  # the rule that compares with the accepted baseline
GROUPS = ("all", "any")
MOST_SETTINGS = 5  # that a note names
NOT_JUDGED = "not judged"
NOT_ASKED = "not asked for"  # of a gate whose stage is not part of the run

COLUMNS = (
    Column("gate", flexible=True),
    Column("measured", "right", flexible=True, narrowest=11),
    Column("95 % interval", flexible=True, narrowest=11),
    Column("threshold", flexible=True, narrowest=14),
    Column("verdict"),
)
STYLES: Mapping[GateOutcome, Style] = {"passed": "good", "failed": "bad", "undecided": "doubt", "no baseline": "dim"}
CHANGES = {  # by rule, words behind a change above 0 and below
    "max_drop": ("drop", "rise"),
    "max_increase": ("increase", "decrease"),
    "max_regression": ("worse", "better"),
}
TITLES: Mapping[GateOutcome, str] = {
    "passed": "gate passed",
    "failed": "gate failed",
    "undecided": "gate undecided",
    "no baseline": "gate without a baseline",
}


def format_gate_table(result: RunResult, terminal: Terminal) -> list[str]:
    """Return the lines of the table; none when nothing was judged."""
    rows = [
        [Cell(name, "strong"), *map(Cell, figures), Cell(verdict.outcome, choose_style(verdict))]
        for verdict in result.verdicts
        for name, *figures in [format_gate(verdict)]
    ]
    rows += [
        [
            Cell(f"{gate.stage} {gate.metric}", "strong"),
            *map(Cell, ("-", "", gate.condition)),
            Cell(NOT_JUDGED, "doubt"),
        ]
        for _, gate in iter_unjudged(result)
    ]
    return render(COLUMNS, rows, terminal)


def format_gate(verdict: Verdict) -> tuple[str, str, str, str]:
    """Return the cells of a gate before its verdict: name, measured value, its interval, threshold."""
    return (
        f"{INDENT * verdict.depth}{verdict.stage} {verdict.metric}",
        show_measured(verdict),
        format_interval(verdict),
        verdict.condition,
    )


def format_gate_notes(result: RunResult, terminal: Terminal, *, failing_only: bool = False) -> list[str]:
    """Return where, why and what next for each gate that did not pass or was not judged; a shared hint comes once."""
    verdicts = [verdict for verdict in list_open_gates(result.verdicts) if verdict.fails or not failing_only]
    hints = [f"  hint: {suggest_next_step(verdict, result)}" if verdict.fails else "" for verdict in verdicts]
    lines: list[str] = []
    for verdict, hint, following in zip(verdicts, hints, [*hints, ""][1:], strict=True):
        lines.append(
            f"{terminal.paint(format_located_title(verdict), choose_style(verdict))}: {explain_verdict(verdict)}"
        )
        if hint and hint != following:
            lines.append(hint)
    for stage, gate in iter_unjudged(result):
        if gate.fails or (stage.outcome == "skipped" and not failing_only):
            title = f"{format_position(gate.position)}: gate {NOT_JUDGED}: {gate.title}"
            lines.append(f"{terminal.paint(title, 'doubt')}: {explain_unjudged(stage)}")
    return lines


def list_caveats(result: RunResult) -> list[Verdict]:
    """Return of each stage the first gate with caveats, unless another gate of it has these and more."""
    limited: list[Verdict] = []
    for verdict in result.verdicts:
        same = any((item.stage, item.caveats) == (verdict.stage, verdict.caveats) for item in limited)
        if verdict.caveats and not same:
            limited.append(verdict)
    return [verdict for verdict in limited if not any(_says_more(other, verdict) for other in limited)]


def _says_more(verdict: Verdict, other: Verdict) -> bool:
    more = len(verdict.caveats) > len(other.caveats)
    return verdict.stage == other.stage and more and all(item in verdict.caveats for item in other.caveats)


def format_caveat(verdict: Verdict) -> str:
    """Return what a verdict does not tell, as a sentence; empty if it has no caveats."""
    if not verdict.caveats:
        return ""
    from orun.text.wording.caveats import describe_caveat as sentence

    return "; ".join(map(sentence, verdict.caveats))


def format_caveat_notes(result: RunResult, terminal: Terminal) -> list[str]:
    """Return a line for each of `list_caveats`."""
    label = terminal.paint("note", "doubt")
    return [f"{label}: {verdict.stage}: {format_caveat(verdict)}" for verdict in list_caveats(result)]


def format_settings_note(result: RunResult) -> str:
    """Return which settings differ from the accepted release; empty unless a gate failed or is undecided."""
    if not any(verdict.outcome in ("failed", "undecided") for verdict in list_open_gates(result.verdicts)):
        return ""
    changes = [
        f"{change.stage}.{change.name} {abridge(change.accepted)} -> {abridge(change.current)}"
        for change in result.changed_settings
    ]
    rest = [f"and {len(changes) - MOST_SETTINGS} more"] if len(changes) > MOST_SETTINGS else []
    return f"since the accepted release: {', '.join([*changes[:MOST_SETTINGS], *rest])}" if changes else ""


def name_verdicts(verdicts: Sequence[Verdict]) -> Iterator[tuple[Verdict, str]]:
    """Yield each verdict with a name of its own: the same condition may stand alone and in groups."""
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts[verdict.title] += 1
        yield verdict, verdict.title + (f" ({counts[verdict.title]})" if counts[verdict.title] > 1 else "")


def iter_unjudged(result: RunResult) -> Iterator[tuple[StageResult, Unjudged]]:
    """Return the gates of stages that have nothing to be judged."""
    return ((stage, gate) for stage in result.stages for gate in stage.unjudged)


def explain_unjudged(stage: StageResult) -> str:
    """Return why no gate of a stage was judged: `latency was skipped: ...`."""
    from orun.text.wording.reasons import VERBS

    reason = stage.failure.problem if stage.failure else reasons(stage.reasons, every=True)
    return f"{stage.stage} {VERBS[stage.outcome]}" + (f": {reason}" if reason else "")


def format_located_title(verdict: Verdict) -> str:
    """Return where a gate stands and what became of it: `bert.yaml:44:7: gate failed: latency p50 max 12ms`."""
    return f"{format_position(verdict.position)}: {format_title(verdict)}"


def format_title(verdict: Verdict) -> str:
    """Return what became of a gate: `gate failed: latency p50 max 12ms`."""
    return f"{TITLES[verdict.outcome]}: {verdict.title}"


def explain_verdict(verdict: Verdict) -> str:
    """Return the finding of a verdict as a sentence, with the pipeline file named as one types it here."""
    from orun.text.wording.findings import describe_finding

    return describe_finding(_format_run(verdict.finding))


def _format_run(reason: Reason) -> Reason:
    """Return a reason whose pipeline file is as one types it in a command, with the options of its run."""
    because = tuple(map(_format_run, reason.because))
    arguments = reason.arguments
    if file := arguments.get("file"):
        store = arguments.get("store")
        options = format_settings(arguments.get("overrides", {}))
        options += store_option(Path(store), Path(file).parent) if store else ""
        arguments = {**arguments, "file": f"{quote(show_path(file))}{options}"}
    return Reason(reason.code, arguments, because)


def find_place(gate: Verdict | Unjudged, result: RunResult) -> Position:
    """Return where a gate stands in its file; of a gate that the command line sets, where its stage stands."""
    return find_position(result[gate.stage], result) if gate.position.file == OVERRIDE else gate.position


def show_measured(verdict: Verdict) -> str:
    """Return what was judged, in its unit, as in `1.2 % drop` or `1.2 % rise`; a dash when there was nothing."""
    value = verdict.measured
    if value is None:
        return "-"
    if verdict.rule not in CHANGES:
        limit = verdict.finding.arguments.get("limit")
        return show_amount(value, verdict.unit, verdict.threshold, None if limit is None else float(limit))
    noun = CHANGES[verdict.rule][value < 0]
    return f"{show_amount(abs(value), verdict.unit, verdict.threshold)} {noun}"


def format_interval(verdict: Verdict) -> str:
    """Return the interval of what was judged, in the direction of the word behind it: of a rise that of the rise."""
    interval = verdict.interval
    if interval and verdict.rule in CHANGES and (verdict.measured or 0.0) < 0:
        interval = Estimate(-interval.value, -interval.high, -interval.low)
    return show_interval(interval, verdict.unit, verdict.threshold)


def choose_style(verdict: Verdict) -> Style:
    """Return how its outcome is painted; a member that failed without failing the run is in doubt."""
    tipped = (verdict.outcome, verdict.fails) in (("failed", False), ("no baseline", True))
    return "doubt" if tipped else STYLES[verdict.outcome]


def suggest_next_step(verdict: Verdict, result: RunResult, *, portable: bool = False) -> str:
    """Return what to type about a gate that makes the run fail.

    With `portable` it is for readers on any machine, who may not have the run's store.
    """
    if verdict.finding.code == ReasonCode.NO_DIRECTION:
        return 'judge it by min or max; a stage of your own can return orun.Metric(value, better="lower")'
    file, stage = quote(show_path(result.file)), quote(verdict.stage)
    options = format_run_options(result, portable=portable)
    first = f"orun {file}{options}; " if portable else ""  # accepted is the last run of a machine
    accept = f"{first}orun baseline accept {file}{options}"
    later = " once the other gates pass" if _fails_besides(result) else ""
    if verdict.rule == REGRESSION and verdict.outcome == "failed" and verdict.measured is not None:
        return f"if the change is meant, accept it as the new baseline{later}: {accept}"
    not_comparable = verdict.rule == REGRESSION and verdict.outcome == "undecided" and verdict.measured is None
    if verdict.outcome == "no baseline" or not_comparable:
        return f"to compare the next runs with this one{later}: {accept}"
    stored = next((item for item in verdict.finding.because if item.code == ReasonCode.STORED_FIGURES), None)
    if stored and any(item.code == ReasonCode.MODEL_MISSING for item in stored.because):
        return (
            "the accepted model is missing here: get it from the remote of the machine where it was accepted, "
            f"orun {file} --remote URL{options}, or use the store of that machine; "
            f"or accept this release{later}: {accept}"
        )
    if portable:
        return f"to judge it on your machine: {format_repetition(result, verdict.stage)}"
    judged = result[verdict.stage]
    metric = judged.metrics.get(verdict.metric)
    fleet = " --on URL --remote URL" if judged.machine else ""
    if metric is not None and metric.noise == "timing":
        return f"to measure again: orun {file} --only {stage} --fresh{options}{fleet}"
    if judged.outcome == "built" and all(item.code != ReasonCode.NEVER_RUN for item in judged.reasons):
        return f"to see what changed since the run before: orun diff{store_option(find_store(result), Path.cwd())}"
    return f"to see what it rests on: orun explain {file} {stage}{options}{fleet}"


def _fails_besides(result: RunResult) -> bool:
    """Return whether a run has gates that fail whatever is accepted, so that `orun baseline accept` refuses it."""
    failing = (verdict for verdict in list_open_gates(result.verdicts) if verdict.fails or verdict.blocks)
    return any(verdict.rule not in (REGRESSION, *GROUPS) for verdict in failing)  # of a group, members may be mended
