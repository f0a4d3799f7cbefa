"""Answers of a PyTorch module to example inputs. A module with which no export could be compared is refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from orun.core.dynamic_axes import list_batch_axes
from orun.errors import StageFailed
from orun.measure.dataset import Array
from orun.stages._graph.agreement import require_finite, require_repeatable, run_cases
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case, make_random_values
from orun.stages._torch.advice import advise_call
from orun.stages._torch.export import Bound
from orun.stages._torch.plain import list_output_names
from orun.stages.contract import Context

TITLE = "the PyTorch model"  # in messages
LARGE = 64  # size of an axis that was tried at small sizes alone
UNFIT = (
    "say which values the model takes, `low`, `high` and `fill` in `inputs`, and which sizes, `dims: {axis: [16, 32]}`"
)
REPEATABLE = (
    "F.dropout(x, p, training=self.training); no torch.randn in forward; .eval() before torch.export or torch.jit.trace"
)


def compute_answers(
    context: Context, bound: Bound, tries: Sequence[Case], outputs: Sequence[str], tolerance: Tolerance
) -> list[Sequence[Array]]:
    """Run the module on each case.

    Two answers to the same inputs must be within the tolerance.

    Raises:
        StageFailed: when the module cannot run, answers the same inputs differently, or returns other tensors than
            `outputs` names, or values that are not finite.
    """
    answers = _run(context, bound, tries)
    for case, values in zip(tries, answers, strict=True):
        _require_count(context, len(answers[0]), tries[0].title, values, case.title)
    require_repeatable(context, TITLE, partial(_run, context, bound), tries, answers, tolerance, REPEATABLE)
    if len(answers[0]) != len(outputs):
        raise context.failed(
            f"{TITLE} returns {len(answers[0])} tensors, and `outputs` names {len(outputs)}",
            why=f"of shapes {', '.join(str(list(value.shape)) for value in answers[0])}",
            hint="name each tensor that the model returns, in order",
        )
    _require_real(context, outputs, answers[0])
    require_finite(context, TITLE, outputs, tries, answers)
    if len(outputs) > 1:
        _require_order(context, outputs, list_output_names(bound, tries[0].feed))
    return answers


def _require_count(context: Context, count: int, title: str, values: Sequence[Array], other: str) -> None:
    """Refuse a module that returns another number of tensors for other inputs."""
    if len(values) != count:
        raise context.failed(
            f"{TITLE} does not return the same number of tensors for all inputs, as a graph does",
            why=f"{count} for {title}\n{len(values)} for {other}",
            hint="return a tensor always, such as an empty one in place of None; or leave that output out",
        )


def _require_real(context: Context, outputs: Sequence[str], values: Sequence[Array]) -> None:
    """Refuse complex outputs: ONNX Runtime has no such tensors."""
    for output, value in zip(outputs, values, strict=True):
        if value.dtype.kind == "c":
            raise context.failed(
                f"{TITLE} returns complex numbers in output {output!r}, which ONNX Runtime cannot",
                hint="return torch.view_as_real(y): the real and imaginary parts in a last axis of 2",
            )


def _run(context: Context, bound: Bound, tries: Sequence[Case]) -> list[Sequence[Array]]:
    """Run the module on each case; where it fails, say what fits it."""
    try:
        return run_cases(context, TITLE, bound, tries, UNFIT)
    except StageFailed as failure:
        if failure.hint == UNFIT:
            failure.hint = advise_call(bound.module, {item.dtype for item in bound.inputs}, failure.why) or UNFIT
        raise


def require_growth(
    context: Context, bound: Bound, tries: Sequence[Case], answers: Sequence[Sequence[Array]], outputs: Sequence[str]
) -> None:
    """Refuse sizes that are too small for an output: one of its axes is 1 at all of them, and longer at larger ones.

    An exporter takes an axis of 1 for a constant, so that the exported model would fail at larger sizes.
    """
    shapes = [[value.shape for value in values] for values in zip(*answers, strict=True)]
    longest = [[*map(max, zip(*tried, strict=False))] for tried in shapes]
    larger = _choose_larger_sizes(bound, tries)
    if not larger or not any(1 in axes for axes in longest):
        return
    sizes = {**tries[-1].sizes, **larger}
    try:
        values = bound(make_random_values(bound.inputs, sizes, np.random.default_rng(context.seed)))
    except Exception:  # noqa: BLE001 - whatever a module raises for sizes that it cannot take
        return
    tried = ", ".join(f"{axis}={size}" for axis, size in larger.items())
    _require_count(context, len(outputs), tries[0].title, values, tried)
    for output, axes, value in zip(outputs, longest, values, strict=True):
        for place, (size, grown) in enumerate(zip(axes, value.shape, strict=False)):
            if size == 1 < grown:
                dims = ", ".join(f"{axis}: [{size}, {size + size // 2}]" for axis, size in larger.items())
                raise context.failed(
                    f"axis {place} of output {output!r} is 1 at every size tried, and {grown} at {tried}",
                    why="an exporter takes an axis of 1 for a constant: the exported model would fail at larger sizes",
                    hint=f"dims: {{{dims}}}",
                )


def _choose_larger_sizes(bound: Bound, tries: Sequence[Case]) -> dict[str, int]:
    """Return a larger size of each dynamic axis that has several sizes, except that of the batch."""
    batch = list_batch_axes(item.shape for item in bound.inputs)
    tried = {axis: {case.sizes[axis] for case in tries} for axis in tries[0].sizes if axis not in batch}
    return {axis: max(2 * max(sizes), LARGE) for axis, sizes in tried.items() if len(sizes) > 1}


def _require_order(context: Context, outputs: Sequence[str], names: Sequence[str]) -> None:
    """Refuse `outputs` that give the name of one tensor, which `forward` returns in a mapping, to another."""
    for output, name in zip(outputs, names, strict=True):
        if name != output and output in names:
            order = f"outputs: [{', '.join(names)}]"
            raise context.failed(
                f"`outputs` would give {output!r} to what forward returns as {name!r}",
                why=f"tensors keep the order in which forward returns them: {', '.join(names)}",
                hint=order if len(set(names)) == len(names) else "name the tensors in that order",
            )
