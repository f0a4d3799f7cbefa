"""Sentences for comparisons with the accepted baseline: how each was made, or why it could not be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orun.core.metrics import UNIT_WORDS, Noise
from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.text.wording.reasons import describe_reasons, fill

NOISY: Mapping[Noise, str] = {"sample": "a sample", "timing": "a busy machine"}
STORED: Mapping[Noise, str] = {
    "none": "figure stored on {day}",
    "sample": "figures stored on {day}, not example by example: {why}",
    "timing": "figures stored on {day} on this machine, not side by side: {why}",
}


def _describe_missing_baseline(reason: Reason) -> str:
    arguments = reason.arguments
    metric = f"`{arguments['metric']}` of " if "metric" in arguments else ""
    removed = ", ".join(f"`{name}`" for name in arguments.get("removed", ()))
    gone = f" (the baseline has {removed}, no longer in the file)" if removed else ""
    if "abandoned" in arguments:
        gone = f" ({arguments['abandoned']} is of a pipeline file that is gone: if it was this one, rename it, too)"
    return f"no baseline yet for {metric}`{arguments['stage']}`{gone}; to accept this release: {_accept(reason)}"


def _accept(reason: Reason) -> str:
    return f"`orun baseline accept {reason.arguments['file']}`"


def _describe_other_unit(reason: Reason) -> str:
    now, then = (UNIT_WORDS[reason.arguments[name]] for name in ("unit", "accepted"))
    return f"{reason.arguments['metric']} {now}, and in the accepted baseline it {then}; {_accept(reason)}"


def _describe_other_machine(reason: Reason) -> str:
    machine = reason.arguments["machine"]
    return (
        f"{_explain_stored(reason)}, and the accepted figures are of another machine ({machine}); "
        f"{_accept(reason)} on this one"
    )


def _describe_other_setup(reason: Reason) -> str:
    changes = "; ".join(describe_reasons(reason.because[1:]))
    return f"{_explain_stored(reason)}, and the accepted figures were measured otherwise: {changes}; {_accept(reason)}"


def _describe_missing_intervals(reason: Reason) -> str:
    noise: Noise = reason.arguments["noise"]
    why = f"figures on {NOISY[noise]} tell nothing without their intervals"
    return f"{_explain_stored(reason)}, and {why}; {_accept(reason)}"


def _explain_stored(reason: Reason) -> str:
    """Return why the accepted model was not measured side by side: the first reason behind a comparison."""
    return METHODS[reason.because[0].code](reason.because[0])


def _describe_stored_figures(reason: Reason) -> str:
    noise: Noise = reason.arguments["noise"]
    why = _explain_stored(reason)
    text = STORED[noise].format(day=reason.arguments["day"], why=why)
    explained = noise == "none" and reason.because[0].code == ReasonCode.OTHER_REFERENCE
    return f"{text}: {why}" if explained else text


def _describe_other_inputs(reason: Reason) -> str:
    return f"the model is the accepted one, but its input {' and '.join(reason.arguments['ports'])} is another one"


# How a comparison with the baseline was made.
METHODS: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.SAME_MODEL: fill("the accepted baseline is this very model"),
    ReasonCode.SAME_MEASUREMENT: fill("the figure that was accepted on {day} is of this very measurement"),
    ReasonCode.STORED_FIGURES: _describe_stored_figures,
    ReasonCode.NO_MODEL_MEASURED: fill("{stage} measures no model that could be measured again"),
    ReasonCode.OTHER_INPUTS: _describe_other_inputs,
    ReasonCode.OTHER_REFERENCE: fill("the reference changed since, and each figure is against its own"),
    ReasonCode.MODEL_MISSING: fill("the accepted model is not in the store"),
    ReasonCode.ONE_MODEL_KIND: fill("{uses} measures no second model"),
}

# Why it could not be made.
OBSTACLES: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.NO_BASELINE: _describe_missing_baseline,
    ReasonCode.OTHER_UNIT: _describe_other_unit,
    ReasonCode.OTHER_MACHINE: _describe_other_machine,
    ReasonCode.OTHER_SETUP: _describe_other_setup,
    ReasonCode.NO_INTERVALS: _describe_missing_intervals,
}
