"""Comparison of two models that must compute the same: same inputs, CPU, one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orun.core.targets import Target
from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages._graph.differences import Tolerance, compare_values, is_finite
from orun.stages._graph.feeds import Case, Masks, make_cases, take_example
from orun.stages._graph.input_domain import Declarations
from orun.stages._graph.leniency import Agreement, Leniency
from orun.stages._graph.limits import Limit, Limits, build_limits
from orun.stages._graph.sessions import Model, open_model
from orun.stages.contract import Context
from orun.text.library_messages import shorten_message

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.dataset import Array

EXAMPLES = 16  # examples of a dataset to compare on
UNFIT = "say which sizes the axes can take, `dims: {axis: [16, 32]}`, or give inputs, `inputs: file.py:function`"


class Compared(Protocol):
    """Parameters of a kind whose result must compute what its input model does."""

    @property
    def dims(self) -> Mapping[str, Sequence[int]]: ...
    @property
    def inputs(self) -> Examples | Declarations | None: ...
    @property
    def atol(self) -> float: ...
    @property
    def rtol(self) -> float: ...


@dataclass(frozen=True)
class Trial:
    """Inputs of a comparison.

    Attributes:
        dims: sizes of dynamic axes other than `feeds.SIZES`, for made-up inputs.
        inputs: a dataset of inputs, or values of made-up inputs that replace those of the model's domain.
        masks: what a made-up mask may hide.
    """

    dims: Mapping[str, Sequence[int]]
    inputs: Examples | Declarations | None = None
    masks: Masks = "any"

    @property
    def is_made_up(self) -> bool:
        """Whether the inputs are made up, and not of a dataset."""
        return self.inputs is None or isinstance(self.inputs, dict)


def run_cases(
    context: Context, title: str, model: Model, tries: Sequence[Case], hint: str = UNFIT
) -> list[Sequence[Array]]:
    """Run a model on each case and return its outputs.

    Raises:
        StageFailed: when the model fails on a case.
    """
    outputs = []
    for done, case in enumerate(tries):
        context.progress(done, len(tries), f"inputs run by {title}")
        try:
            outputs.append(model(case.feed))
        except UsageError as error:  # not a matter of the inputs
            raise context.failed(error.problem, why=error.why, hint=error.hint) from error
        except Exception as error:  # errors of the frameworks share no other base class
            raise context.failed(
                f"{title} cannot run {case.title}",
                why=shorten_message(str(error)),
                hint=hint,
            ) from error
    return outputs


def require_repeatable(
    context: Context,
    title: str,
    run: Callable[[Sequence[Case]], list[Sequence[Array]]],
    tries: Sequence[Case],
    answers: Sequence[Sequence[Array]],
    tolerance: Tolerance,
    hint: str,
) -> None:
    """Refuse a model whose answers to the same inputs differ: no conversion could be compared with it."""
    sizes = [sum(value.size for value in case.feed.values()) for case in tries]
    largest = sizes.index(max(sizes))  # in which chance cannot hide it
    (again,) = run((tries[largest],))
    if len(again) != len(answers[largest]) or any(
        compare_values(*pair, tolerance)[0] for pair in zip(answers[largest], again, strict=True)
    ):
        raise context.failed(
            f"{title} answers the same inputs differently each time",
            why="it draws random numbers, keeps state, or was saved in training mode",
            hint=hint,
        )


def require_finite(
    context: Context, title: str, outputs: Sequence[str], tries: Sequence[Case], answers: Sequence[Sequence[Array]]
) -> None:
    """Refuse inputs for which a reference model yields values that are not finite.

    Raises:
        StageFailed: when an answer has such a value.
    """
    import numpy as np

    for case, values in zip(tries, answers, strict=True):
        for name, value in zip(outputs, values, strict=True):
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise context.failed(
                    f"{title} yields values that are not finite in output {name!r}",
                    why=f"for {case.title}",
                    hint="say in `inputs` which values the model takes: `low`, `high`, `fill`",
                )


def check(
    context: Context,
    agreement: Agreement,
    tries: Sequence[Case],
    expected: Sequence[Sequence[Array]],
    candidate: Model,
    limits: Limits | None = None,
) -> float:
    """Run the candidate on every case and return its largest absolute error.

    On a disagreement, only what the reference can promise is compared: values that depend on attention rows that see
    nothing are left out, and the tolerance is at least a multiple of the reference's own spread. A note says so.
    Without limits, everything is compared.

    Raises:
        StageFailed: when the candidate fails, disagrees, or yields a value that is not finite where the reference is
            finite; when no value of an output is left to compare.
    """
    largest = 0.0
    leniency = Leniency(agreement, limits.spread if limits else "")
    actual = run_cases(context, agreement.candidate, candidate, tries, agreement.hint or UNFIT)
    for case, references, values in zip(tries, expected, actual, strict=True):
        pairs = [agreement.pair(*item) for item in zip(agreement.outputs, references, values, strict=True)]
        disagree = any(compare_values(*pair, agreement.tolerance)[0] for pair in pairs)
        case_limits: Sequence[Limit | None] = (
            limits.of(case, references) if limits and disagree else [None] * len(pairs)
        )
        compared = [
            compare_values(*pair, agreement.tolerance, limit) for pair, limit in zip(pairs, case_limits, strict=True)
        ]
        problems = [place for place, (problem, _) in enumerate(compared) if problem]
        if problems:
            # A label differs because a score is not finite, so that output is named first.
            overflows = [place for place in problems if is_finite(pairs[place][0]) and not is_finite(pairs[place][1])]
            place = [*overflows, *problems][0]
            name, reason = agreement.outputs[place], compared[place][0]
            if overflows:
                reason += agreement.describe_range(case)
            raise context.failed(
                f"{agreement.candidate} disagrees with {agreement.reference} in output {name!r}",
                why=f"{reason}\nfor {case.title}",
                hint=agreement.hint,
            )
        for name, (reference, value), limit in zip(agreement.outputs, pairs, case_limits, strict=True):
            leniency.add(case, name, reference, value, limit)
        largest = max([largest, *(error for _, error in compared)])
    leniency.require_compared(context)
    context.notes.extend(leniency.iter_notes())
    text = "compared %s with %s on %d inputs: largest error %.3g"
    context.log.info(text, agreement.candidate, agreement.reference, len(tries), largest)
    return largest


def check_against_input(
    context: Context,
    candidate: str,
    trial: Trial,
    tolerance: Tolerance | None,
    *,
    adapt: Callable[[Model], Model] | None = None,
    stand_in: Path | None = None,
    outputs: Sequence[str] | None = None,
    hint: str = "",
) -> float:
    """Compare `context.result` with the input model of the stage.

    Without a tolerance, only shapes, types and finiteness must agree, and sizes that depend on values may differ.
    `adapt` adapts the inputs and outputs of the result to those of the input model. `stand_in` computes the same as the
    result, where that cannot run here. All outputs of the input model are compared unless `outputs` names those that
    both have.

    Raises:
        StageFailed: as `check` does.
    """
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import find_counts

    before = load_graph(context.model())
    outputs = [output.name for output in before.graph.output] if outputs is None else outputs
    agreement = Agreement(candidate, "the model before it", outputs, tolerance, hint, find_counts(before))
    tries = load_cases(context, before, trial)
    expected = run_cases(context, agreement.reference, open_model(context.model(), outputs, context.target), tries)
    result = open_candidate(context, agreement, stand_in or context.result, context.target)
    limits = build_limits(context, context.model(), outputs, context.target)
    return check(context, agreement, tries, expected, adapt(result) if adapt else result, limits)


def open_candidate(context: Context, agreement: Agreement, path: Path, target: Target | None) -> Model:
    """Return the candidate as a function of its inputs.

    Raises:
        StageFailed: when ONNX Runtime cannot open it.
    """
    from orun.measure.session import DOCTOR

    try:
        return open_model(path, agreement.outputs, target)
    except UsageError as error:
        message = f"ONNX Runtime cannot open {agreement.candidate}"
        hints = [hint for hint in (error.hint, agreement.hint) if hint and hint != DOCTOR]
        raise context.failed(message, why=error.why, hint="; ".join(hints)) from error


def check_and_weigh(
    context: Context,
    candidate: str,
    params: Compared,
    *,
    adapt: Callable[[Model], Model] | None = None,
    hint: str = "",
) -> dict[str, float]:
    """Compare `context.result` with the input model; return its size, its nodes and theirs before, and the error.

    Arguments and errors are as for `check_against_input`.
    """
    from orun.stages._graph.io import weigh

    trial, tolerance = Trial(params.dims, params.inputs), Tolerance(params.atol, params.rtol)
    error = check_against_input(context, candidate, trial, tolerance, adapt=adapt, hint=hint)
    before = weigh(context.model())["nodes"]
    return {**weigh(context.result), "nodes_before": before, "max_abs_error": error}


def run_alone(context: Context, candidate: str, trial: Trial, hint: str = UNFIT) -> int:
    """Run `context.result` where nothing can be compared; return the number of inputs.

    Raises:
        StageFailed: when it fails on one.
    """
    from orun.stages._graph.io import load_graph

    model = load_graph(context.result)
    tries = load_cases(replace(context, inputs={"model": context.output}), model, trial)
    result = open_model(context.result, [value.name for value in model.graph.output], context.target)
    run_cases(context, candidate, result, tries, hint)
    return len(tries)


def load_cases(context: Context, model: ModelProto, trial: Trial) -> tuple[Case, ...]:
    """Return the cases of a trial: examples of its dataset, or values made up within the model's domain."""
    from orun.measure.dataset import spread_indices
    from orun.stages._graph.input_domain import to_input_values
    from orun.stages._graph.io import list_input_names
    from orun.stages._graph.signature import build_inputs, count_axes, find_sizes
    from orun.stages.datasets import format_title, load_dataset
    from orun.stages.name_checks import require_known, require_made_up

    names = list_input_names(model)
    if trial.inputs is None or isinstance(trial.inputs, dict):
        over = trial.inputs or {}
        require_known("inputs", over, names)
        inputs = build_inputs(model, to_input_values(over))
        return tuple(make_cases(inputs, {**find_sizes(model), **trial.dims}, context.seed, trial.masks))
    require_made_up(context, trial.dims, "inputs")
    ranks = count_axes(model)
    dataset = load_dataset(context, trial.inputs, names)
    return tuple(
        Case(f"example {number} of {format_title(trial.inputs)}", {}, take_example(dataset.inputs, number, ranks))
        for number in spread_indices(len(dataset), EXAMPLES)
    )
