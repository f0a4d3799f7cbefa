"""Comparison of an edited model with the model before it, whose inputs and outputs may differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import ModelProto

from orun.measure.dataset import Array
from orun.stages._graph.agreement import Trial, check, load_cases, open_candidate, run_alone, run_cases
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.leniency import Agreement
from orun.stages._graph.sessions import Feed, open_model
from orun.stages._graph.signature import find_counts
from orun.stages.optimize._editing.draft import Draft

TITLE = "the edited model"
HINT = "look at what the edits change; `check: false` where that is meant"
BAKED = "the graph may hold that size in a constant: export the model with a dynamic axis"


def compare(draft: Draft, result: ModelProto, trial: Trial, tolerance: Tolerance | None) -> float | None:
    """Run the edited model, and compare the outputs that the model before it has, too.

    The result is written already; the trial is of its inputs. Without a tolerance nothing is compared. The largest
    error is None if no output can be compared.

    Raises:
        StageFailed: when a model fails, or they disagree.
    """
    context = draft.context
    shared = [value.name for value in result.graph.output if value.name in draft.outputs]
    edits = " and ".join(dict.fromkeys(draft.altered)) or "shapes"
    if not shared or tolerance is None:
        run_alone(context, TITLE, trial)
        why = f"{edits} changed what goes in or comes out" if tolerance else "`check` is off"
        context.note(f"no output was compared with the model before it: {why}")
        return None
    own = replace(context, inputs={"model": context.output})
    cases = load_cases(own, result, replace(trial, dims={**trial.dims, **draft.sizes}) if trial.is_made_up else trial)
    cases = tuple(replace(case, feed={**case.feed, **draft.fixed_values}) for case in cases)
    tolerance = None if draft.altered else tolerance
    agreement = Agreement(TITLE, "the model before it", shared, tolerance, HINT, find_counts(result))
    before = open_model(context.model(), [draft.outputs[name] for name in shared], context.target)

    def run_before(feed: Feed) -> Sequence[Array]:
        for step_back in reversed(draft.steps_back):
            feed = step_back(feed)
        return before(feed)

    expected = run_cases(context, agreement.reference, run_before, cases)
    after = open_candidate(context, agreement, context.result, context.target)
    largest = check(context, agreement, cases, expected, after)
    if draft.sizes and trial.is_made_up:
        run_alone(context, TITLE, trial, BAKED)
    if draft.altered:
        context.note(f"{edits} may change what the model computes: its outputs may differ, see `max_abs_error`")
    return largest
