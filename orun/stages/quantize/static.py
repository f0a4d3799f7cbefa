"""Store weights and activations in 8 or 16 bits, with ranges of activations measured beforehand, with ONNX Runtime.

`dataset` holds typical inputs, in any form that `measure/accuracy` takes. The ranges are measured while the model runs
on them. Without a dataset, inputs are made up from the model's signature. That is enough to try a pipeline, but not for
a release: noise has other ranges than data.

The stage checks on made-up inputs that the result runs and that every output is finite. To find out how accurate it is,
put `measure/accuracy` after it, with other data than it was calibrated on. With `smooth`, the float model is first
rewritten so that it rounds better, and checked to compute the same.

Nodes that attention masks or infinite values pass through stay in float, and a note names them. A mask hides keys with
very low numbers, and an integer range that holds these would round all scores to one value. So do nodes that read an
input which never changes in the dataset, such as a state that is always zero: its other values have no range.

`method: distribution` is ACIQ: the range of the least error for normal or Laplacian values. It also cuts off outliers
that matter to transformers. With all products of MiniLM quantized, embeddings keep a cosine of 0.76 to those in float
(0.90 with `smooth: 0.5`), where `minmax` keeps 0.93.

8-bit floats, `float8e4m3fn`, are for accelerators that have them; none was at hand to try. The inputs of Conv, Gemm and
MatMul are rounded, with the largest magnitude at 448. With all products of MiniLM rounded so, embeddings keep a cosine
of 0.996. ONNX Runtime's CPU computes such a model in float. Up to 1.31 it opens it only if it does not fuse the pairs
into integer operators: set `session.disable_quant_qdq: 1` below `session` of the target, or
`graph_optimization_level: basic`. ONNX Runtime's own method for 8-bit floats, `Distribution`, is refused: it cuts off
values beyond 4.5 standard deviations (MiniLM: a cosine of 0.70), and loses a Relu before a rounded value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._data.source import Examples
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages._graph.precision import TYPES, Override
from orun.stages.common_parameters import Dims, Excluded, Preprocess
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages._graph.agreement import Trial

FLOAT8 = "float8e4m3fn"
Stored = Literal["int8", "uint8", "int16", "uint16", "float8e4m3fn"]
METHODS: Mapping[str, str] = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}

PERCENTILE = 99.999
WEIGHT_COPIES = 3.2  # peak memory as a multiple of the weights


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/static`."""

    dataset: Annotated[
        Examples | None,
        Doc("Typical inputs: a function that returns an `orun.Dataset`, or files; made up when left out."),
    ] = None
    samples: Annotated[int, Doc("Use only so many examples, spread evenly over the data."), Range(1)] = 128
    method: Annotated[
        Literal["minmax", "entropy", "percentile", "distribution"],
        Doc(
            "How a range follows from the values: `minmax` keeps all of them; `entropy` and `percentile` cut off "
            "outliers; `distribution` cuts off what normal or Laplacian values rarely reach (ACIQ), with `format: qdq`."
        ),
    ] = "minmax"
    percentile: Annotated[
        float | None,
        Doc("With `method: percentile`: how many percent of the values stay in range; 99.999 when left out."),
        Range(50, 100),
    ] = None
    moving_average: Annotated[bool, Doc("With `minmax`: average the bounds of the examples.")] = False
    format: Annotated[
        Literal["qdq", "qoperator"],
        Doc("Pairs of QuantizeLinear and DequantizeLinear, which every provider reads, or integer operators."),
    ] = "qdq"
    activation_type: Annotated[Stored, Doc("How activations are stored.")] = "uint8"
    weight_type: Annotated[Stored, Doc("How weights are stored.")] = "int8"
    per_channel: Annotated[bool, Doc("One scale for each output channel of a weight.")] = False
    reduce_range: Annotated[
        bool, Doc("Use 7 of the 8 bits for weights. x86-64 processors without VNNI instructions need it.")
    ] = False
    symmetric: Annotated[bool, Doc("Centre the ranges of activations on zero; GPUs need it.")] = False
    op_types: Annotated[
        list[str] | None, Doc("Types of operators to quantize; all that ONNX Runtime can quantize when left out.")
    ] = None
    include: Annotated[list[str], Doc("Names of the only nodes to quantize; all when empty.")] = field(
        default_factory=list
    )
    exclude: Excluded = field(default_factory=list)
    include_tensors: Annotated[
        list[str],
        Doc(
            "Names of the only values and weights to quantize; all of the chosen nodes when empty. With `format: qdq`."
        ),
    ] = field(default_factory=list)
    exclude_tensors: Annotated[list[str], Doc("Names of values and weights to leave in float; with `format: qdq`.")] = (
        field(default_factory=list)
    )
    smooth: Annotated[
        float | None,
        Doc(
            "SmoothQuant's alpha, often 0.5: how much of the outliers in the input channels of a MatMul or Gemm moves "
            "into its weights."
        ),
        Range(0, 1),
    ] = None
    overrides: Annotated[
        dict[str, Override],
        Doc("Other types for some tensors, or for the inputs and outputs of some nodes, by name; with `format: qdq`."),
    ] = field(default_factory=dict)
    preprocess: Preprocess = True
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to quantize.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "ml-dtypes", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime", "onnxruntime.quantization"),
    metrics={"size": SIZE, "nodes": LOWER, "quantized": HIGHER, "max_abs_error": LOWER},
    calibration_params=("dataset",),
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the quantized model to `context.result`."""
    from orun.stages._graph.agreement import check_against_input
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import iter_nodes, load, load_graph, save, weigh
    from orun.stages.memory_headroom import require_memory
    from orun.stages.quantize._float8 import UNFUSED, convert_to_float8
    from orun.stages.quantize._integers import (
        explain_weights,
        find_integer_weights,
        require_integers,
        require_scales,
    )
    from orun.stages.quantize._pairs import keep_in_float

    _require_supported(context, params)
    require_memory(context, WEIGHT_COPIES)
    if params.weight_type == FLOAT8:
        context = replace(context, target=UNFUSED)  # fused integer operators take no 8-bit floats
    with TemporaryDirectory(dir=".") as folder:  # the quantizer writes beside its input
        path = Path(folder, "float.onnx")
        result = _quantize(context, params, path, *_prepare(context, params, path))
        if params.include_tensors or params.exclude_tensors:
            keep_in_float(context, path, result, params.include_tensors, params.exclude_tensors)
        if params.weight_type == FLOAT8:
            convert_to_float8(result, load(path))
        before = load_graph(path)
    why = "only operators with constant weights are, such as Conv, Gemm and MatMul"
    quantized = require_integers(context, result, why, before=find_integer_weights(before))
    if any(node.op_type == "LSTM" for node in iter_nodes(result)):
        context.note("nodes of LSTM stay in float: `quantize/dynamic` alone stores them in 8 bits")
    require_scales(context, result)
    tidy_domains(result)
    save(result, context.result)
    _, hint = explain_weights(before) or ("", "")
    error = check_against_input(context, "the quantized model", _build_trial(params), None, hint=hint)
    return {**weigh(context.result), "quantized": quantized, "max_abs_error": error}


def _build_trial(params: Params) -> Trial:
    from orun.stages.quantize._calibration import make_trial

    return make_trial(params.dims, params.inputs, ranges_made_up=params.dataset is None)


def _require_supported(context: Context, params: Params) -> None:
    from orun.stages.quantize._integers import require_types

    if FLOAT8 in (params.activation_type, params.weight_type):
        from orun.stages.quantize._float8 import require_float8

        conflicts = {
            "format: qoperator": params.format != "qdq",
            "method: entropy": params.method == "entropy",
            "overrides": bool(params.overrides),
            "reduce_range": params.reduce_range,
        }
        types = (params.activation_type, params.weight_type)
        require_float8(context, types, params.method, params.op_types or (), conflicts)
    require_types(context, params.op_types)
    for name, is_set, method in (
        ("percentile", params.percentile is not None, "percentile"),
        ("moving_average", params.moving_average, "minmax"),
    ):
        if is_set and params.method != method:
            raise context.failed(f"`{name}` needs `method: {method}`, not {params.method}")
    needs_qdq = {name: bool(getattr(params, name)) for name in ("overrides", "include_tensors", "exclude_tensors")}
    for name, is_set in {**needs_qdq, "method: distribution": params.method == "distribution"}.items():
        if is_set and params.format != "qdq":
            raise context.failed(f"`{name}` needs `format: qdq`, not {params.format}")


def _prepare(context: Context, params: Params, path: Path) -> tuple[Any, Mapping[str, Any], Sequence[str]]:
    """Write the float model to a path; return a reader of the dataset, the types of tensors, and nodes left out."""
    from orun.stages._graph.io import list_input_names, load, save
    from orun.stages._graph.ort_graph import IN_THE_WAY, add_types, optimize
    from orun.stages._graph.precision import make_tensor_overrides
    from orun.stages._graph.signature import count_axes
    from orun.stages.quantize._calibration import build_reader, load_calibration_data
    from orun.stages.quantize._clipping import add_bounds
    from orun.stages.quantize._embeddings import keep_positions
    from orun.stages.quantize._integers import is_quantized
    from orun.stages.quantize._masks import exclude_masks
    from orun.stages.quantize._shared_weights import separate_axes
    from orun.stages.quantize._smoothing import smooth_and_check

    model = optimize(context.model(), "basic", IN_THE_WAY) if params.preprocess else load(context.model())
    names = [node.name for node in model.graph.node]
    require_known("include", params.include, names)
    require_known("exclude", params.exclude, names)
    require_known("op_types", params.op_types or [], [node.op_type for node in model.graph.node])
    is_selected = partial(is_quantized, params.op_types, params.exclude, params.include)
    if params.format != "qdq":
        keep_positions(context, model, is_selected, _build_trial(params))
    if params.per_channel:
        separate_axes(model)
    model = add_types(model)
    tensors = {name for node in model.graph.node for name in (*node.input, *node.output) if name}
    require_known("include_tensors", params.include_tensors, tensors)
    require_known("exclude_tensors", params.exclude_tensors, tensors)
    inputs = list_input_names(model)
    dataset = load_calibration_data(context, params.dataset, inputs, params.samples, params.dims, params.inputs)
    if params.smooth is not None:
        smooth_and_check(context, model, params.smooth, dataset, is_selected, _build_trial(params))
    overrides = make_tensor_overrides(model, params.overrides, per_channel=params.per_channel)
    masked = exclude_masks(context, model, dataset, is_selected)
    if params.method == "distribution":
        overrides = add_bounds(model, dataset, overrides, params.activation_type)
    save(model, path, external=True)
    return build_reader(context, dataset, count_axes(model)), overrides, masked


def _quantize(
    context: Context, params: Params, path: Path, reader: Any, overrides: Mapping[str, Any], masked: Sequence[str]
) -> ModelProto:
    import numpy as np
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    from orun.stages._graph.io import load
    from orun.stages._graph.nodes import sort_nodes
    from orun.stages.quantize._calibration import quantizing_static
    from orun.stages.quantize._float8 import OPERATORS, QUANTIZER_OPTIONS

    float8 = params.weight_type == FLOAT8
    result = path.with_name("quantized.onnx")
    # A mask may span all of float32, whose width overflows.
    with quantizing_static(context, path), np.errstate(over="ignore", invalid="ignore"):
        quantize_static(
            path,
            result,
            reader,
            quant_format=QuantFormat.QDQ if params.format == "qdq" else QuantFormat.QOperator,
            op_types_to_quantize=params.op_types or (list(OPERATORS) if float8 else None),
            per_channel=params.per_channel,
            reduce_range=params.reduce_range,
            activation_type=QuantType[TYPES.get(params.activation_type, "QInt8")],
            weight_type=QuantType[TYPES.get(params.weight_type, "QInt8")],
            nodes_to_quantize=params.include,
            nodes_to_exclude=[*params.exclude, *masked],
            use_external_data_format=True,
            calibrate_method=CalibrationMethod[METHODS.get(params.method, "MinMax")],
            extra_options={
                "ActivationSymmetric": params.symmetric or float8,
                **(QUANTIZER_OPTIONS if float8 else {}),
                "CalibMovingAverage": params.moving_average,
                "CalibPercentile": PERCENTILE if params.percentile is None else params.percentile,
                "TensorQuantOverrides": overrides,
                # Histograms of examples that differ in shape can only be collected one example at a time.
                "CalibStridedMinMax": 1
                if reader.shapes_differ and params.method in ("entropy", "percentile")
                else None,
            },
        )
        model = load(result)
        sort_nodes(model.graph)  # the quantizer does not see which outer values the graphs of an If or Loop read
    return model
