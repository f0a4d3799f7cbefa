"""Find where a model's values differ most from those of the float model that it was made of.

Both models run on the same inputs, and every tensor that they share is compared by three signal-to-noise ratios (SQNR,
in dB):

- of the tensor itself;
- of the error that arises at that node alone: the model is fed the float model's values just before it;
- of the quantized weights.

Tensors are matched by name, then by the nodes that compute them, then by position. The nodes where most error arises
are then put back to float one at a time: `share` is how much of the outputs' error disappears. If time is short, only
the first examples are used (`tried_with` in the file). The two models may also be fused, pruned or edited versions of
one another.

Metrics: `sqnr.min` and `sqnr.median` of the tensors, `local.min` of the error of one node, `weights.min` and
`weights.median` of the weights, `sqnr` of the outputs, `share` of the worst node, `tensors` that were compared, and
tensors of the float model that are `unmatched`.

The artifact holds `tensors.json` and `tensors.md`. Both models run without ONNX Runtime's optimizations, which would
replace the nodes that are compared. The outputs' error with optimizations is in the file as `optimized_error`. If it is
much larger, the fault is in a kernel and not in the graph. Weights in blocks (`MatMulNBits`) are not compared by
themselves, nor are tensors of graphs inside nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import GAIN, HIGHER, LOWER, SHARE
from orun.core.serialization import encode
from orun.stages._data.source import Examples
from orun.stages.common_parameters import MadeUpDims, ModelTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range

if TYPE_CHECKING:
    from orun.diagnosis.findings import Analysis, Finding

WEIGHT_COPIES = 1.7  # peak memory as a multiple of the weights of both models
SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The quantized model."),
        "reference": Port(("onnx",), "The float model that it was made from."),
    },
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={
        **dict.fromkeys(("sqnr", "sqnr.min", "sqnr.median", "local.min", "weights.min", "weights.median"), GAIN),
        "share": SHARE,
        "tensors": HIGHER,
        "unmatched": LOWER,
    },
)


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/debug`."""

    dataset: Annotated[
        Examples | None, Doc("A dataset of inputs (see `measure/accuracy`); made up from the model when left out.")
    ] = None
    samples: Annotated[int, Doc("Use only so many examples, spread evenly over the data."), Range(low=1)] = 8
    dims: MadeUpDims = field(default_factory=dict)
    target: ModelTarget = None
    trials: Annotated[int, Doc("Most nodes to put back to float, one at a time."), Range(low=0)] = 32
    time: Annotated[Duration, Doc("Time after which no further node is put back."), Range(low=0)] = Duration(60)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Compare the models, and write the table of findings."""
    from orun.diagnosis.findings import Effort, analyse
    from orun.diagnosis.values import Pair
    from orun.stages._graph.disk_weights import load_on_disk
    from orun.stages.compared_inputs import choose_feeds
    from orun.stages.memory_headroom import require_memory

    require_memory(context, WEIGHT_COPIES)
    feeds = choose_feeds(context, params.dataset, params.samples, params.dims)
    target = context.model_target
    model, reference = (load_on_disk(context.model(port), f"{port}.data") for port in ("model", "reference"))
    pair = Pair(model, reference, feeds, target)
    analysis = analyse(pair, Effort(params.trials, params.time), context.progress)
    if not analysis.findings:
        why = "no tensor of one was found in the other, by name, by what computes it or by its place"
        raise context.failed("the two models have nothing in common", why=why)
    _write(context, analysis)
    return _build_metrics(analysis)


def _build_metrics(analysis: Analysis) -> dict[str, float]:
    from orun.measure.metrics.fidelity import decibels

    def build_higher(value: float) -> float:
        return value

    values = {
        "sqnr": decibels(1.0, analysis.error),
        "sqnr.min": min(finding.sqnr for finding in analysis.findings),
        "sqnr.median": median(finding.sqnr for finding in analysis.findings),
    }
    if local := [finding.local for finding in analysis.findings if finding.local is not None]:
        values["local.min"] = min(local)
    if weights := [finding.weights for finding in analysis.findings if finding.weights is not None]:
        values |= {"weights.min": min(weights), "weights.median": median(weights)}
    metrics = {name: build_higher(value) for name, value in values.items()}
    if shares := [finding.share for finding in analysis.findings if finding.share is not None]:
        metrics["share"] = max(shares)
    return {
        **metrics,
        "tensors": build_higher(len(analysis.findings)),
        "unmatched": analysis.unmatched,
    }


def _write(context: Context, analysis: Analysis) -> None:
    def rank(finding: Finding) -> tuple[float, float, float]:
        local = float("inf") if finding.local is None else finding.local
        return -(finding.share or 0.0), local, finding.sqnr

    rows = sorted(analysis.findings, key=rank)
    order = {row.tensor: number for number, row in enumerate(analysis.findings)}
    listed = [{**encode(row), "order": order[row.tensor]} for row in rows]
    document = {"format": 1, "worst": rows[0].node, **encode(analysis), "findings": listed}
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (context.output / "tensors.json").write_text(text, encoding="utf-8")
    lines = ["| node | op | share | local dB | SQNR dB | weights dB |", "|---|---|---|---|---|---|"]
    lines += [_format_row(row) for row in rows]
    (context.output / "tensors.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    context.log.info("%s", lines[0])
    for line in lines[2:12]:
        context.log.info("%s", line)


def _format_row(finding: Finding) -> str:
    share = "" if finding.share is None else f"{finding.share:.1%}"
    figures = ["" if value is None else f"{value:.1f}" for value in (finding.local, finding.sqnr, finding.weights)]
    return f"| {' | '.join([finding.node, finding.op, share, *figures])} |"
