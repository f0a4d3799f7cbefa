"""Sentences for comparisons with the accepted baseline: how each was made, or why it could not be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orun.core.metrics import UNIT_WORDS, Noise
from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.text.wording.reasons import fill, sentences

NOISY: Mapping[Noise, str] = {"sample": "a sample", "timing": "a busy machine"}
STORED: Mapping[Noise, str] = {
    "none": "figure stored on {day}",
    "sample": "figures stored on {day}, not example by example: {why}",
    "timing": "figures stored on {day} on this machine, not side by side: {why}",
}


def _no_baseline(reason: Reason) -> str:
    arguments = reason.arguments
    metric = f"`{arguments['metric']}` of " if "metric" in arguments else ""
    removed = ", ".join(f"`{name}`" for name in arguments.get("removed", ()))
    gone = f" (the baseline has {removed}, no longer in the file)" if removed else ""
    return f"no baseline yet for {metric}`{arguments['stage']}`{gone}; to accept this release: {_accept(reason)}"


def _accept(reason: Reason) -> str:
    return f"`orun baseline accept {reason.arguments['file']}`"


def _other_unit(reason: Reason) -> str:
    now, then = (UNIT_WORDS[reason.arguments[name]] for name in ("unit", "accepted"))
    return f"{reason.arguments['metric']} {now}, and in the accepted baseline it {then}; {_accept(reason)}"


def _other_machine(reason: Reason) -> str:
    machine = reason.arguments["machine"]
    return (
        f"{_why_stored(reason)}, and the accepted figures are of another machine ({machine}); "
        f"{_accept(reason)} on this one"
    )


def _other_setup(reason: Reason) -> str:
    changes = "; ".join(sentences(reason.because[1:]))
    return f"{_why_stored(reason)}, and the accepted figures were measured otherwise: {changes}; {_accept(reason)}"


def _no_intervals(reason: Reason) -> str:
    noise: Noise = reason.arguments["noise"]
    return (
        f"{_why_stored(reason)}, and figures on {NOISY[noise]} tell nothing without their intervals; {_accept(reason)}"
    )


def _why_stored(reason: Reason) -> str:
    """Return why the accepted model was not measured side by side: the first reason behind a comparison."""
    return METHODS[reason.because[0].code](reason.because[0])


def _stored_figures(reason: Reason) -> str:
    noise: Noise = reason.arguments["noise"]
    why = _why_stored(reason)
    text = STORED[noise].format(day=reason.arguments["day"], why=why)
    explained = noise == "none" and reason.because[0].code == ReasonCode.OTHER_REFERENCE
    return f"{text}: {why}" if explained else text


def _other_inputs(reason: Reason) -> str:
    return f"the model is the accepted one, but its input {' and '.join(reason.arguments['ports'])} is another one"


# How a comparison with the baseline was made.
METHODS: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.SAME_MODEL: fill("the accepted baseline is this very model"),
    ReasonCode.SAME_MEASUREMENT: fill("the figure that was accepted on {day} is of this very measurement"),
    ReasonCode.STORED_FIGURES: _stored_figures,
    ReasonCode.NO_MODEL_MEASURED: fill("{stage} measures no model that could be measured again"),
    ReasonCode.OTHER_INPUTS: _other_inputs,
    ReasonCode.OTHER_REFERENCE: fill("the reference changed since, and each figure is against its own"),
    ReasonCode.MODEL_MISSING: fill("the accepted model is not in the store"),
    ReasonCode.ONE_MODEL_KIND: fill("{uses} measures no second model"),
}

# Why it could not be made.
OBSTACLES: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.NO_BASELINE: _no_baseline,
    ReasonCode.OTHER_UNIT: _other_unit,
    ReasonCode.OTHER_MACHINE: _other_machine,
    ReasonCode.OTHER_SETUP: _other_setup,
    ReasonCode.NO_INTERVALS: _no_intervals,
}
