"""Sentences for the findings of gates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from orun.core.metrics import Estimate, Unit, parse_extra_reference
from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.text.counts import count
from orun.text.units import show, show_amount, show_beside, show_interval
from orun.text.wording import advice
from orun.text.wording.baseline_comparisons import METHODS, OBSTACLES
from orun.text.wording.reasons import describe_reason, fill

SHOWN = 5  # slices whose finding a sentence tells
LARGEST_ODDS = 1e6 * (1 - 1e-9)
COMPARED_MODELS = {"baseline": "the accepted baseline", "reference": "the reference"}


def describe_finding(reason: Reason) -> str:
    """Return the sentence of a finding, with who accepted the baseline that it is held against."""
    render = RENDERERS.get(reason.code, describe_reason)
    signatures = (item.arguments for item in reason.because if item.code == ReasonCode.ACCEPTED_BY)
    signed = "".join(f"; {item['who']} accepted that baseline on {item['day']}" for item in signatures)
    return render(reason) + signed


def _show_figure(value: float, unit: Unit, limit: float) -> str:
    """Return a value as people read it, with digits that tell it from the limit."""
    return "without bound" if math.isinf(value) else show_beside(value, unit, limit)


def _show_interval(arguments: Mapping[str, Any]) -> str:
    """Return `95 % interval 1 ms to 2 ms`; empty for an exact figure."""
    if "low" not in arguments:
        return ""
    low, high = float(arguments["low"]), float(arguments["high"])
    return f"95 % interval {show_interval(Estimate(float(arguments['value']), low, high), arguments['unit'])}"


def _describe_value(reason: Reason) -> str:
    """Return a metric by itself against `min` or `max`."""
    arguments = reason.arguments
    machine = arguments.get("machine")
    place = "" if not machine else f" on another machine ({machine})" if "elsewhere" in arguments else f" on {machine}"
    notes = [_show_interval(arguments)] if "low" in arguments else []
    if "undisturbed" in arguments:
        notes.append(f"{show(float(arguments['undisturbed']), arguments['unit'])} without waiting for a core")
    value = _show_figure(float(arguments["value"]), arguments["unit"], float(arguments["limit"]))
    text = f"{arguments['metric']} is {value}{place}" + (f" ({'; '.join(notes)})" if notes else "")
    most = arguments["rule"] == "max"
    rule = f"{'maximum' if most else 'minimum'} of {arguments['threshold']}"
    if reason.code == ReasonCode.VALUE_UNDECIDED:
        disturbed = any(item.code == ReasonCode.DISTURBED for item in reason.because)
        return (
            f"{text}{'' if disturbed else f', and the interval holds the {rule}'}{advice.format_advice(reason.because)}"
        )
    within = reason.code == ReasonCode.VALUE_WITHIN
    side = ("within" if within else "above") if most else ("at or above" if within else "below")
    return f"{text}, {side} the {rule}"


def _name_reference(reason: Reason) -> str:
    """Return what a model is compared with: `the accepted baseline`, `the reference`, or a reference's name."""
    against = str(reason.arguments["against"])
    return COMPARED_MODELS.get(against) or parse_extra_reference(against) or against


def _describe_comparison(reason: Reason) -> str:
    """Return `the drop of recall_at_1 against the reference is 0.7 % (95 % interval ...)`."""
    arguments = reason.arguments
    value = _show_figure(float(arguments["value"]), arguments["unit"], float(arguments["limit"]))
    methods = [METHODS[item.code](item) for item in reason.because if item.code in METHODS]
    method = methods[0] if methods else str(arguments.get("method", ""))
    if "of_zero" in arguments:
        method += f"; nothing is a proportion of 0, which {_name_reference(reason)} has: write the threshold without %"
    interval = f"{_show_interval(arguments)}; " if "low" in arguments else ""
    change = f"the {arguments['noun']} of {arguments['metric']} against {_name_reference(reason)}"
    return f"{change} is {value} ({interval}{method})"


def _describe_change(reason: Reason) -> str:
    """Return a change against the threshold."""
    arguments, least = reason.arguments, "least" in reason.arguments
    shown = "shown to be " if "low" in arguments else ""
    if reason.code == ReasonCode.CHANGE_WITHIN:
        side = "at least" if least else "within"
    else:
        side = "less than" if least else "more than"
    return f"{_describe_comparison(reason)}: {shown}{side} {arguments['threshold']}"


def _describe_undecided_change(reason: Reason) -> str:
    arguments = reason.arguments
    if any(item.code == ReasonCode.DISTURBED for item in reason.because):
        return _describe_comparison(reason) + advice.format_advice(reason.because)
    ends = [float(arguments[end]) for end in ("low", "high") if end in arguments]
    threshold = arguments["threshold"]
    bounded = not ends or any(map(math.isfinite, ends))
    held = f"the interval holds {threshold}" if bounded else f"{threshold} is neither kept nor broken"
    return f"{_describe_comparison(reason)}: {held}{advice.format_advice(reason.because)}"


def _describe_regression(reason: Reason) -> str:
    odds, needed = (_format_odds(float(reason.arguments[name])) for name in ("odds", "needed"))
    threshold = reason.arguments["threshold"]
    return f"{_describe_comparison(reason)}: one of {threshold} or more fits {odds} better than none ({needed} fail)"


def _describe_no_regression(reason: Reason) -> str:
    odds, needed = (_format_odds(float(reason.arguments[name])) for name in ("odds", "needed"))
    threshold = reason.arguments["threshold"]
    return f"{_describe_comparison(reason)}: none fits {odds} better than one of {threshold} or more ({needed} pass)"


def _format_odds(odds: float) -> str:
    return "over a million times" if odds >= LARGEST_ODDS else f"{odds:.0f} times"


def _describe_too_few_launches(reason: Reason) -> str:
    threshold = reason.arguments["threshold"]
    ending = f"too few launches to tell one of {threshold} from none"
    return f"{_describe_comparison(reason)}: {ending}{advice.format_advice(reason.because)}"


def _describe_group(reason: Reason) -> str:
    """Return `passed: p50 max 12ms; failed: speedup min 1.5`."""
    return "; ".join(f"{outcome}: {', '.join(names)}" for outcome, names in reason.arguments["gates"].items())


def _describe_slices(reason: Reason) -> str:
    arguments = reason.arguments
    outcomes: Mapping[str, int] = arguments["outcomes"]
    counts = [f"{outcomes.get('passed', 0)} of {count(arguments['slices'], 'slice')} passed"]
    counts += [f"{number} {outcome}" for outcome, number in outcomes.items() if outcome != "passed"]
    smallest = f"the smallest is {arguments['smallest']} with {count(arguments['examples'], 'example')}"
    parts = [", ".join(counts), smallest]
    if without := arguments.get("without"):
        parts.append(f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} no figure of it")
    if "worst" in arguments:
        value = show_amount(float(arguments["value"]), arguments["unit"], arguments["threshold"])
        parts.append(f"the worst is {arguments['worst']} with {value}")
    sentences = list(dict.fromkeys(describe_finding(item) for item in reason.because))
    more = [f"and {len(sentences) - SHOWN} more"] if len(sentences) > SHOWN else []
    return "; ".join([*parts, *sentences[:SHOWN], *more])


def _describe_missing_metric(reason: Reason) -> str:
    arguments = reason.arguments
    start = f"{arguments['stage']} measured no {arguments['metric']}"
    if "suggestion" in arguments:
        return f"{start}; did you mean {arguments['suggestion']}?"
    return f"{start}; it has {', '.join(arguments.get('known', ())) or 'no metrics'}"


def _describe_misfit(reason: Reason) -> str:
    arguments = reason.arguments
    expected = f"; expected {arguments['expected']}" if "expected" in arguments else ""
    meant = f"; did you mean {arguments['suggestion']}?" if "suggestion" in arguments else ""
    return f"{arguments['message']}{expected}{meant}"


def _describe_missing_slices(reason: Reason) -> str:
    arguments = reason.arguments
    why = (
        "no slice has a figure of it; one number of your own needs `resamples`, and precision, recall, f1, iou, auc "
        "and average_precision need slices of several classes: a field that copies the label is `by: label`"
        if arguments["sliced"]
        else "add it to `slices`"
    )
    return f"{arguments['metric']} was not measured by {arguments['by']}: {why}"


def _describe_missing_reference(reason: Reason) -> str:
    arguments = reason.arguments
    return (
        f"{_name_reference(reason)} has no {arguments['metric']} to compare with: the stage has no "
        f"`{arguments['against']}` input, or the metric itself is what lies between the two: use min or max; or "
        "max_regression, which compares with the release that was accepted last, once there is one"
    )


def _describe_negative_value(reason: Reason) -> str:
    arguments = reason.arguments
    value, other = (show(float(arguments[name]), arguments["unit"]) for name in ("value", "other"))
    reference = _name_reference(reason)
    return f"{arguments['metric']} is {value}, and {other} of {reference}: a figure below 0 has no speed-up"


def _describe_incomparable(reason: Reason) -> str:
    return f"{reason.arguments['metric']} cannot be compared: {_describe_comparison(reason)}"


RENDERERS: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.VALUE_WITHIN: _describe_value,
    ReasonCode.VALUE_BEYOND: _describe_value,
    ReasonCode.VALUE_UNDECIDED: _describe_value,
    ReasonCode.CHANGE_WITHIN: _describe_change,
    ReasonCode.CHANGE_BEYOND: _describe_change,
    ReasonCode.CHANGE_UNDECIDED: _describe_undecided_change,
    ReasonCode.REGRESSION_SHOWN: _describe_regression,
    ReasonCode.REGRESSION_EXCLUDED: lambda reason: (
        f"{_describe_comparison(reason)}: it is clearly less than {reason.arguments['threshold']}"
    ),
    ReasonCode.NO_REGRESSION: _describe_no_regression,
    ReasonCode.TOO_FEW_LAUNCHES: _describe_too_few_launches,
    ReasonCode.ZERO_THRESHOLD: lambda reason: (
        f"{_describe_comparison(reason)}: a threshold of 0 tells no two times apart; allow 1 % or more"
    ),
    ReasonCode.GROUP: _describe_group,
    ReasonCode.SLICES: _describe_slices,
    ReasonCode.METRIC_MISSING: _describe_missing_metric,
    ReasonCode.NOT_FINITE: fill("{metric} is {value}, not a finite number"),
    ReasonCode.THRESHOLD_MISFIT: _describe_misfit,
    ReasonCode.SLICES_MISSING: _describe_missing_slices,
    ReasonCode.SLICE_GONE: fill("{metric} was accepted, and is not measured any more"),
    ReasonCode.NO_REFERENCE: _describe_missing_reference,
    ReasonCode.NO_DIRECTION: fill("{metric} has no direction of improvement, so it has no {noun}"),
    ReasonCode.NEGATIVE_VALUE: _describe_negative_value,
    ReasonCode.NOT_COMPARABLE: _describe_incomparable,
    **OBSTACLES,
}
