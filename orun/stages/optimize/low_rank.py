"""Write the weights of MatMul, Gemm and Conv as products of two smaller matrices, by singular value decomposition.

A layer becomes two: a MatMul before the former operator; or a convolution and one of kernel 1 after it; or a vertical
and a horizontal convolution, whichever serves the budget better:

- `error: 5%` keeps as few numbers as this error of the model's outputs allows: their root mean square error relative
  to the outputs, the largest of all outputs. Every fourth example of `dataset` judges it; the factors are made from the
  others.
- `size: 70%` keeps at most this share of the numbers in the model, with the least error.

`method: whitened` changes the outputs of each layer least, for the inputs that it has on `dataset` (SVD-LLM, Wang
2025). `plain` looks at the weights alone; with `size` it needs no dataset. With a dataset, the model also runs with
each layer factorised alone: layers that harm its outputs less lose more.

How far weights can shrink differs much. A CNN on digits keeps its accuracy of 96.8 % at 35 % of its numbers, and has
94.1 % at 20 % (`plain`: 46.6 %). MiniLM, distilled itself, keeps embeddings with a mean cosine of only 0.87 at 80 %
(`plain`: 0.61).

A layer keeps a weight that other nodes read too, that is quantized, or that has groups; the log says why. Put the stage
before quantization and before `optimize/transformer`, which knows products by their usual form. Put `measure/accuracy`
and `measure/latency` after it, with other data: two small products are not always faster than a large one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import GAIN, HIGHER, LOWER, LOWER_SHARE, SIZE
from orun.stages._data.source import Examples
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Dims, Excluded
from orun.stages.contract import Context, Needed, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range, Ratio

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages.optimize._low_rank.layers import Layer
    from orun.stages.optimize._low_rank.probe import Probe

REASONS = 3  # shown when no layer can be factorised
WEIGHT_COPIES = 6.0  # peak memory as a multiple of the weights


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/low-rank`."""

    error: Annotated[
        Ratio | None, Doc("Largest error of the model's outputs on `dataset`, relative to them."), Range(0, 1)
    ] = None
    size: Annotated[Ratio | None, Doc("Largest share of the model's numbers to keep."), Range(0, 1)] = None
    method: Annotated[
        Literal["whitened", "plain"], Doc("Weigh the inputs of each layer as `dataset` has them, or all alike.")
    ] = "whitened"
    dataset: Annotated[Examples | None, Doc("Typical inputs: a function that returns an `orun.Dataset`, or files.")] = (
        None
    )
    samples: Annotated[int, Doc("Use only so many examples, spread evenly over the data."), Range(1)] = 128
    op_types: Annotated[list[Literal["Conv", "Gemm", "MatMul"]], Doc("Operators to factorise.")] = field(
        default_factory=lambda: ["Conv", "Gemm", "MatMul"]
    )
    exclude: Excluded = field(default_factory=list)
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to factorise.")},
    tools=("onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    calibration_params=("dataset",),
    one_of=("error", "size"),
    needed={
        "dataset": Needed(
            {"error": (), "method": ("whitened",)},
            "typical inputs, `dataset: file.py:function`; `method: plain` with `size` needs none",
        )
    },
    metrics={
        "size": SIZE,
        "nodes": LOWER,
        "parameters": LOWER,
        "removed": GAIN,
        "factorised": HIGHER,
        "max_abs_error": LOWER,
        "error": LOWER_SHARE,
    },
)


def metrics(params: Params) -> Collection[str]:
    """Return the names of the metrics for some parameters; there is no `error` without a dataset."""
    return [name for name in SPEC.metrics or () if name != "error" or params.dataset is not None]


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the factorised model to `context.result`."""
    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.io import load, save, weigh
    from orun.stages._graph.plain import fold_transposes, hoist, inline, part_weights
    from orun.stages.memory_headroom import require_memory

    require_memory(context, WEIGHT_COPIES)
    model = inline(load(context.model()))
    require_known("exclude", params.exclude, [node.name for node in model.graph.node])
    part_weights(model)
    hoist(model)
    fold_transposes(model)
    before = _count(model)
    measured = _factorize(context, model, params)
    after = _count(model)
    save(model, context.result)
    del model  # before two sessions hold its weights
    error = check_against_input(context, "the factorised model", Trial(params.dims, params.inputs), None)
    return {
        **weigh(context.result),
        "parameters": after,
        "removed": before - after,
        **measured,
        "max_abs_error": error,
    }


def _factorize(context: Context, model: ModelProto, params: Params) -> Mapping[str, float]:
    """Factorise layers in place; return the number of layers, and the error if there is a dataset."""
    from orun.stages.optimize._low_rank.choice import prepare
    from orun.stages.optimize._low_rank.rewriting import replace_layers

    layers = _find(context, model, params)
    probe = _open_probe(context, model, params, layers)
    choice = prepare(context, layers, probe, whitened=params.method == "whitened")
    if params.size is not None:
        count = choice.count_for_size(params.size, _count(model))
    else:
        assert probe is not None  # noqa: S101 - `SPEC.needed` has seen to it
        count = choice.count_for_error(params.error or 0.0, probe)
    context.log.info("\n".join(choice.describe(count)))
    pairs = choice.collect_factors(count)
    replace_layers(model, layers, pairs)
    factorised = len(pairs)
    if probe is None:
        return {"factorised": factorised}
    return {
        "factorised": factorised,
        "error": probe.measure_error(choice.compute_weights(count)),
    }


def _find(context: Context, model: ModelProto, params: Params) -> list[Layer]:
    """Return the layers that can be factorised; refuse a model without any."""
    from orun.stages.optimize._low_rank.layers import find_layers, find_quantized
    from orun.stages.optimize._pruning.channels import computes_weights

    reasons: list[str] = []
    layers = find_layers(model, params.op_types, params.exclude, reasons.append)
    for reason in reasons:
        context.log.info(reason)
    if layers:
        return layers
    if quantized := find_quantized(model):
        why, hint = f"the weight of {quantized[0]} is quantized", "put this stage before quantization"
    else:
        why = "\n".join(reasons[:REASONS]) or f"it has no {', '.join(params.op_types)} with a stored weight in float"
        simplify = "`optimize/simplify` before it stores what the model computes from weights alone"
        hint = simplify if computes_weights(model) else "leave the stage out"
    raise context.failed("nothing in the model can be factorised", why=why, hint=hint)


def _open_probe(context: Context, model: ModelProto, params: Params, layers: list[Layer]) -> Probe | None:
    from orun.stages._graph.io import list_input_names
    from orun.stages._graph.missing import require_ranges
    from orun.stages.datasets import load_dataset
    from orun.stages.optimize._low_rank.probe import Probe

    if params.dataset is None:
        return None
    dataset = load_dataset(context, params.dataset, list_input_names(model)).spread(params.samples)
    require_ranges(context, dataset)
    probe = Probe(model, layers, dataset)
    if not probe.outputs:
        raise context.failed(
            "the model has no output in floating point",
            why="the error that factors cause is measured there",
            hint="`method: plain` with `size`, without `dataset`, measures none",
        )
    return probe


def _count(model: ModelProto) -> int:
    """Return how many numbers a model stores in floating point."""
    import math

    from onnx import helper

    return sum(
        math.prod(tensor.dims)
        for tensor in model.graph.initializer
        if helper.tensor_dtype_to_np_dtype(tensor.data_type).kind == "f"
    )
