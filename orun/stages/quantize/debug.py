"""Find where a model's values part from those of the float model that it was made of, the worst places first.

Both run on the same inputs, and every tensor that they share is compared: by its signal to noise ratio (SQNR, in dB)
as it is, by that of the error that arises right there (the model is fed the float model's values just before it), and
by that of the quantized weights. Tensors are told by name, where names changed by what computes them, and else by their
place. Then the places where most arises are put back to float one at a time: `share` is how much of the outputs' error
goes away with it. Where time is short they are tried with the first examples alone (`tried_with` in the file). It
serves any two models of the same task: fused, pruned or edited ones as well.

Metrics: `sqnr.min` and `sqnr.median` of the tensors, `local.min` of what arises in one place, `weights.min` and
`weights.median` of the weights, `sqnr` of the outputs, `share` of the worst place, how many `tensors` were compared and
how many of the float model are `unmatched`.
The artifact holds `tensors.json` and `tensors.md`. Both models run without ONNX Runtime's optimizations, which would
replace the nodes that are looked into; the outputs' error with them is in the file too, as `optimized_error`: where it
is much larger, the fault is in a kernel and not in the graph. Weights in blocks (`MatMulNBits`) are not looked at by
themselves, and graphs inside of nodes are not looked into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.core.serialization import encode
from orun.errors import StageFailed
from orun.stages._data.source import Examples
from orun.stages.common_parameters import MadeUpDims, Where
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range

if TYPE_CHECKING:
    from orun.diagnosis.findings import Analysis, Finding

ROOM = 1.7  # times the weights of both models is held at once: sessions of both, and of what differs by itself
SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The quantized model."),
        "reference": Port(("onnx",), "The float model that it was made of."),
    },
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics=(
        "sqnr", "sqnr.min", "sqnr.median", "local.min", "weights.min", "weights.median", "share", "tensors", "unmatched"
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Params:
    """On what the models are compared, and how much is tried."""

    dataset: Annotated[
        Examples | None, Doc("A dataset of inputs (see `measure/accuracy`); made up from the model when left out.")
    ] = None
    samples: Annotated[int, Doc("Use only the first so many examples."), Range(low=1)] = 8
    dims: MadeUpDims = field(default_factory=dict)
    target: Where = None
    trials: Annotated[int, Doc("Places to put back to float, one at a time, at most."), Range(low=0)] = 32
    time: Annotated[Duration, Doc("After this time no further place is tried."), Range(low=0)] = Duration(60)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Compare the models, and leave the table."""
    from orun.core.targets import Target
    from orun.diagnosis.findings import Effort, analyse
    from orun.diagnosis.values import Pair
    from orun.stages._graph.apart import load_apart
    from orun.stages.compared_inputs import feeds_of
    from orun.stages.memory_headroom import require_room

    require_room(context, ROOM)
    feeds = feeds_of(context, params.dataset, params.samples, params.dims)
    target = context.target or Target("cpu")
    model, reference = (load_apart(context.model(port), f"{port}.data") for port in ("model", "reference"))
    pair = Pair(model, reference, feeds, target)
    found = analyse(pair, Effort(params.trials, params.time), context.progress)
    if not found.findings:
        why = "no tensor of one was found in the other, by name, by what computes it or by its place"
        raise StageFailed(context.stage, "the two models have nothing in common", why=why)
    _write(context, found)
    return _metrics(found)


def _metrics(found: Analysis) -> dict[str, Metric]:
    from orun.measure.metrics.fidelity import decibels

    def higher(value: float) -> Metric:
        return Metric(value, better="higher")

    values = {
        "sqnr": decibels(1.0, found.error),
        "sqnr.min": min(one.sqnr for one in found.findings),
        "sqnr.median": median(one.sqnr for one in found.findings),
    }
    if local := [one.local for one in found.findings if one.local is not None]:
        values["local.min"] = min(local)
    if weights := [one.weights for one in found.findings if one.weights is not None]:
        values |= {"weights.min": min(weights), "weights.median": median(weights)}
    metrics = {name: higher(value) for name, value in values.items()}
    if shares := [one.share for one in found.findings if one.share is not None]:
        metrics["share"] = Metric(max(shares))
    return {**metrics, "tensors": higher(len(found.findings)), "unmatched": Metric(found.unmatched, better="lower")}


def worst_first(found: Sequence[Finding]) -> list[Finding]:
    """By share of the outputs' error, then by what arises there, then by the noise that is there."""

    def rank(one: Finding) -> tuple[float, float, float]:
        return -(one.share or 0.0), float("inf") if one.local is None else one.local, one.sqnr

    return sorted(found, key=rank)


def _write(context: Context, found: Analysis) -> None:
    rows = worst_first(found.findings)
    order = {row.tensor: number for number, row in enumerate(found.findings)}
    listed = [{**encode(row), "order": order[row.tensor]} for row in rows]
    document = {"format": 1, "worst": rows[0].node, **encode(found), "findings": listed}
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (context.output / "tensors.json").write_text(text, encoding="utf-8")
    lines = ["| node | op | share | local dB | SQNR dB | weights dB |", "|---|---|---|---|---|---|"]
    lines += [_row(row) for row in rows]
    (context.output / "tensors.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    context.log.info("%s", lines[0])
    for line in lines[2:12]:
        context.log.info("%s", line)


def _row(one: Finding) -> str:
    share = "" if one.share is None else f"{one.share:.1%}"
    figures = ["" if value is None else f"{value:.1f}" for value in (one.local, one.sqnr, one.weights)]
    return f"| {' | '.join([one.node, one.op, share, *figures])} |"
