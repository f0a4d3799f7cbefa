"""Answers of onnxruntime-web compared with those of ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.dataset import Array
    from orun.stages._graph.sessions import Feed

CANDIDATE, REFERENCE = "the model in onnxruntime-web", "the model on the CPU"
HINT = (
    "raise `atol` or `rtol` if that is good enough; WebAssembly may round 8 and 16 bits in another way, and casts a"
    " negative number to an unsigned integer as 0"
)


def compare_with_cpu(
    context: Context,
    model: ModelProto,
    tries: Sequence[Case],
    run: Callable[[Feed], dict[str, Array]],
    tolerance: Tolerance,
) -> float:
    """Return the largest absolute error of the answers of a web session.

    Raises:
        StageFailed: when they disagree, or one of the two cannot run.
    """
    from orun.stages._graph.agreement import check, run_cases
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.limits import build_limits
    from orun.stages._graph.sessions import open_model

    outputs = [output.name for output in model.graph.output]
    agreement = Agreement(CANDIDATE, REFERENCE, outputs, tolerance, HINT)
    expected = run_cases(context, REFERENCE, open_model(context.model(), outputs), tries)
    limits = build_limits(context, context.model(), outputs, None)

    def run_candidate(feed: Feed) -> list[Array]:
        answers = run(feed)
        return [answers[name] for name in outputs]

    return check(context, agreement, tries, expected, run_candidate, limits)
