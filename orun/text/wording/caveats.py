"""Sentences for what a verdict does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.text.lists import join_few
from orun.text.wording.reasons import describe_reason, describe_reasons


def describe_caveat(reason: Reason) -> str:
    """Return the sentence of a caveat."""
    render = RENDERERS.get(reason.code, describe_reason)
    return render(reason)


def _describe_fitted_data(reason: Reason) -> str:
    parameters = " and ".join(f"`{name}` of {stage}" for name, stage in reason.arguments["parameters"])
    return (
        f"its data is the {parameters}, by which the model was made: on other data it may be worse, so keep some for "
        "this"
    )


def _describe_unchecked_target(reason: Reason) -> str:
    target, source = reason.arguments["target"], reason.arguments["source"]
    return (
        f"its speed is that of target {target}, on which no gate judges what {source} answers: "
        f"one on measure/accuracy with `target: {target}` does"
    )


def _describe_changes_since_baseline(reason: Reason) -> str:
    changes = describe_reasons(reason.because)
    return (
        f"since the baseline was accepted on {reason.arguments['day']}: {join_few(changes, separator='; ')}; both "
        "models were measured as it is now, so what that does to them is not in the comparison"
    )


RENDERERS: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.FITTED_DATA: _describe_fitted_data,
    ReasonCode.UNCHECKED_TARGET: _describe_unchecked_target,
    ReasonCode.CHANGED_SINCE_BASELINE: _describe_changes_since_baseline,
}
