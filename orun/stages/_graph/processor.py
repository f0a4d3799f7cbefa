"""Comparison of a result on this machine's CPU, without the errors of that CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orun.core.targets import Target
from orun.environment import processor
from orun.errors import StageFailed
from orun.stages._graph.agreement import check, open_candidate
from orun.stages._graph.io import iter_nodes, load_graph
from orun.stages._graph.leniency import Agreement
from orun.stages._graph.limits import Limits

if TYPE_CHECKING:
    from orun.measure.dataset import Array
    from orun.stages._graph.feeds import Case
    from orun.stages.contract import Context


def check_result(
    context: Context,
    agreement: Agreement,
    tries: Sequence[Case],
    expected: Sequence[Sequence[Array]],
    limits: Limits | None = None,
) -> float:
    """Run `context.result` on the CPU on every case and return its largest absolute error.

    If this processor saturates sums of 8-bit products, it may be the cause of a disagreement. Then integers are
    computed in float, as the model defines them, and the log says so.

    Raises:
        StageFailed: as `check` does, or when ONNX Runtime cannot open the result.
    """

    def compare_on(target: Target | None) -> float:
        candidate = open_candidate(context, agreement, context.result, target)
        return check(context, agreement, tries, expected, candidate, limits)

    try:
        return compare_on(None)
    except StageFailed as disagreement:
        operators = {node.op_type for node in iter_nodes(load_graph(context.result))}
        if not processor.saturates() or "DequantizeLinear" not in operators:
            raise
        text = "%s here: this processor, without VNNI, saturates sums of 8-bit products. Compared in float instead"
        context.log.warning(text, disagreement.problem)
    return compare_on(Target("cpu", session={"session.disable_quant_qdq": "1"}))
