"""Store weights and activations in 8 or 16 bits, with ranges of activations measured beforehand, with ONNX Runtime.

`dataset` holds typical inputs, in any form that `measure/accuracy` takes: the ranges are those of the values that they
bring about. Without one, inputs are made up from the model's signature, which suits trying a pipeline out and no
release: the ranges of noise are not those of data.

8-bit floats, `float8e4m3fn`, are for accelerators that have them, on none of which this was tried: what Conv, Gemm and
MatMul take is rounded, with the largest magnitude at 448. With all products of MiniLM so its embeddings keep a cosine
of 0.996 to those in float. ONNX Runtime's CPU computes such a model in float. Up to 1.31 it opens it only where it
makes no operators on integers of the pairs: `session.disable_quant_qdq: 1` below `session` of the target, or
`graph_optimization_level: basic`. Its own method for them, `Distribution`, is refused: it cuts off what is beyond 4.5
standard deviations (MiniLM: a cosine of 0.70), and loses a Relu before what it rounds. For integers `distribution` is
ACIQ: the range of the least error for normal or Laplacian values. Outliers that matter, as transformers have them, it
cuts off, too (all products of MiniLM: 0.76, and 0.90 with `smooth: 0.5`, where `minmax` keeps 0.93).

Nodes that masks pass through stay in float, and a note names them: an integer range that holds the very low numbers
with which a mask hides keys would round all scores to one value. So do nodes that compute with infinite values.

That the result still works is checked on made-up inputs (it runs, and every output is finite); how good it is takes
other data than it was calibrated on: put `measure/accuracy` after it. With `smooth`, the float model is first rewritten
so that it rounds better, and checked to compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._data.source import Examples
from orun.stages._graph.agreement import Dims, Inputs
from orun.stages._graph.precision import TYPES, Override
from orun.stages.common_parameters import Excluded, Preprocess
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range
from orun.stages.quantize._integers import require_integers, require_scales, require_types

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from orun.measure.dataset import Dataset
    from orun.stages._graph.agreement import Trial

FLOAT8 = "float8e4m3fn"
Stored = Literal["int8", "uint8", "int16", "uint16", "float8e4m3fn"]
METHODS: Mapping[str, str] = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}

PERCENTILE = 99.999
MOST_TOLD = 8  # nodes that a note names

ROOM = 3.2  # times the weights is held at once


@dataclass(frozen=True)
class Params:
    """What is quantized, how, and by which data."""

    dataset: Annotated[
        Examples | None,
        Doc("Typical inputs: a function that returns an `orun.Dataset`, or files; made up when left out."),
    ] = None
    samples: Annotated[int, Doc("Use only the first so many examples."), Range(1)] = 128
    method: Annotated[
        Literal["minmax", "entropy", "percentile", "distribution"],
        Doc(
            "How a range is told from the values: `minmax` keeps all of them, `entropy` and `percentile` cut outliers "
            "off; `distribution` cuts off what normal or Laplacian values rarely reach (ACIQ), with `format: qdq`."
        ),
    ] = "minmax"
    percentile: Annotated[
        float | None,
        Doc("With `method: percentile`: how much of the values stays in range; 99.999 when left out."),
        Range(50, 100),
    ] = None
    moving_average: Annotated[bool, Doc("With `minmax`: average the bounds of the examples.")] = False
    format: Annotated[
        Literal["qdq", "qoperator"],
        Doc("Pairs of QuantizeLinear and DequantizeLinear, which every provider reads, or operators on integers."),
    ] = "qdq"
    activation_type: Annotated[Stored, Doc("How activations are stored.")] = "uint8"
    weight_type: Annotated[Stored, Doc("How weights are stored.")] = "int8"
    per_channel: Annotated[bool, Doc("One scale for each output channel of a weight.")] = False
    reduce_range: Annotated[
        bool, Doc("Use 7 of the 8 bits for weights, as x86-64 processors without VNNI instructions need it.")
    ] = False
    symmetric: Annotated[bool, Doc("Ranges of activations with zero in the middle; GPUs need them.")] = False
    op_types: Annotated[
        list[str] | None, Doc("Types of operators to quantize; all that ONNX Runtime can when left out.")
    ] = None
    include: Annotated[list[str], Doc("Names of the only nodes to quantize; all when empty.")] = field(
        default_factory=list
    )
    exclude: Excluded = field(default_factory=list)
    include_tensors: Annotated[
        list[str],
        Doc("Names of the only values and weights to round; all of those nodes when empty. With `format: qdq`."),
    ] = field(default_factory=list)
    exclude_tensors: Annotated[list[str], Doc("Names of values and weights to leave in float; with `format: qdq`.")] = (
        field(default_factory=list)
    )
    smooth: Annotated[
        float | None,
        Doc(
            "SmoothQuant's alpha, often 0.5: how much of the outliers among the channels that a MatMul or Gemm takes "
            "moves into its weights."
        ),
        Range(0, 1),
    ] = None
    overrides: Annotated[
        dict[str, Override],
        Doc("Other types for some tensors, or what some nodes take and yield, by name; with `format: qdq`."),
    ] = field(default_factory=dict)
    preprocess: Preprocess = True
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to quantize.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "ml-dtypes", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime", "onnxruntime.quantization"),
    metrics=("size", "nodes", "quantized", "max_abs_error"),
    fits=("dataset",),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the quantized model to `context.result`."""
    from orun.stages._graph.agreement import check_against_input
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import load, save, weigh
    from orun.stages.memory_headroom import require_room
    from orun.stages.quantize._float8 import UNFUSED, to_float8
    from orun.stages.quantize._pairs import leave

    _require_possible(context, params)
    require_room(context, ROOM)
    if params.weight_type == FLOAT8:
        context = replace(context, target=UNFUSED)  # what ONNX Runtime fuses has no such type
    with TemporaryDirectory(dir=".") as folder:  # the quantizer writes beside its input
        prepared = _prepare(context, params, Path(folder, "float.onnx"))
        result = _quantize(context, params, prepared)
        if params.include_tensors or params.exclude_tensors:
            leave(context, prepared.path, result, params.include_tensors, params.exclude_tensors)
        if params.weight_type == FLOAT8:
            to_float8(result, load(prepared.path))
    why = "static quantization changes operators whose weights are constants, such as Conv, Gemm and MatMul"
    quantized = require_integers(context, result, why)
    require_scales(context, result)
    tidy_domains(result)
    save(result, context.result)
    error = check_against_input(context, "the quantized model", _trial(params), None)
    return {**weigh(context.result), "quantized": Metric(quantized, better="higher"), "max_abs_error": error}


def _trial(params: Params) -> Trial:
    from orun.stages.quantize._calibration import trial

    return trial(params.dims, params.inputs, ranges_made_up=params.dataset is None)


def _require_possible(context: Context, params: Params) -> None:
    if FLOAT8 in (params.activation_type, params.weight_type):
        from orun.stages.quantize._float8 import require_float8

        require_float8(context, params)
    require_types(context, params.op_types)
    for name, asked, method in (
        ("percentile", params.percentile is not None, "percentile"),
        ("moving_average", params.moving_average, "minmax"),
    ):
        if asked and params.method != method:
            raise StageFailed(context.stage, f"`{name}` needs `method: {method}`, not {params.method}")
    pairs = {name: bool(getattr(params, name)) for name in ("overrides", "include_tensors", "exclude_tensors")}
    for name, asked in {**pairs, "method: distribution": params.method == "distribution"}.items():
        if asked and params.format != "qdq":
            raise StageFailed(context.stage, f"`{name}` needs `format: qdq`, not {params.format}")


@dataclass(frozen=True)
class Prepared:
    """What is going to be quantized.

    Attributes:
        path: of the float model.
        ranks: how many axes each of its inputs has.
        dataset: typical values of these.
        overrides: other types for some of its tensors, as ONNX Runtime takes them.
        masks: names of nodes that stay in float, because masks pass through them.
    """

    path: Path
    ranks: Mapping[str, int]
    dataset: Dataset
    overrides: Mapping[str, Any]
    masks: tuple[str, ...]


def _prepare(context: Context, params: Params, path: Path) -> Prepared:
    """Write the float model, and let go of it."""
    from orun.stages._graph.io import input_names, load, save
    from orun.stages._graph.ort_graph import IN_THE_WAY, add_types, optimized
    from orun.stages._graph.precision import tensor_overrides
    from orun.stages._graph.signature import ranks_of
    from orun.stages.quantize._calibration import typical
    from orun.stages.quantize._clipping import with_bounds

    model = optimized(context.model(), "basic", IN_THE_WAY) if params.preprocess else load(context.model())
    names = [node.name for node in model.graph.node]
    require_known("include", params.include, names)
    require_known("exclude", params.exclude, names)
    require_known("op_types", params.op_types or [], [node.op_type for node in model.graph.node])
    model = add_types(model)
    tensors = {name for node in model.graph.node for name in (*node.input, *node.output) if name}
    require_known("include_tensors", params.include_tensors, tensors)
    require_known("exclude_tensors", params.exclude_tensors, tensors)
    inputs = input_names(model)
    dataset = typical(context, params.dataset, inputs, params.samples, params.dims, params.inputs)
    if params.smooth is not None:
        _smooth(context, model, params, dataset)
    overrides = tensor_overrides(model, params.overrides, per_channel=params.per_channel)
    masks = _masks(context, params, model, dataset)
    if params.method == "distribution":
        overrides = with_bounds(model, dataset, overrides, params.activation_type)
    ranks = {name: rank for name, rank in ranks_of(model).items() if name in inputs}
    save(model, path, external=True)
    return Prepared(path, ranks, dataset, overrides, masks)


def _masks(context: Context, params: Params, model: ModelProto, dataset: Dataset) -> tuple[str, ...]:
    """Names of the nodes that stay in float because masks pass through; nodes without a name get one."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    from orun.stages.quantize._masks import mask_nodes

    found = mask_nodes(model, dataset)
    for node in found:
        node.name = node.name or node.output[0]
    types = params.op_types or {*QDQRegistry, *QLinearOpsRegistry}
    told = [
        node.name
        for node in found
        if node.op_type in types
        and node.name not in params.exclude
        and (not params.include or node.name in params.include)
    ]
    if told:
        context.log.info(
            "%d nodes stay in float, as masks or infinite values pass through:\n  %s", len(told), "\n  ".join(told)
        )
        more = f" and {len(told) - MOST_TOLD} more, which the log names" if len(told) > MOST_TOLD else ""
        context.note(
            f"{len(told)} nodes stay in float, because attention masks or infinite values pass through them: "
            f"{', '.join(told[:MOST_TOLD])}{more}"
        )
    return tuple(node.name for node in found)


def _smooth(context: Context, model: ModelProto, params: Params, dataset: Dataset) -> None:
    """Smooth what is going to be quantized, and check that the float model still computes the same."""
    import onnx

    from orun.stages._graph.agreement import Tolerance, check_against_input
    from orun.stages._graph.io import save
    from orun.stages.quantize._smoothing import smooth

    def wanted(node: NodeProto) -> bool:
        of_type = params.op_types is None or node.op_type in params.op_types
        return of_type and node.name not in params.exclude and (not params.include or node.name in params.include)

    done = smooth(model, params.smooth or 0.0, dataset, wanted)
    if not done:
        raise StageFailed(
            context.stage,
            "`smooth` found nothing to do",
            why="no MatMul or Gemm that is to be quantized has a constant matrix on its right",
            hint="leave `smooth` out, or look at `op_types`, `include` and `exclude`",
        )
    context.log.info("%d products with smoothed inputs:\n  %s", len(done), "\n  ".join(done))
    save(model, context.result)  # the quantized model takes its place
    tolerance = Tolerance(1e-4, 1e-3)
    check_against_input(context, "the smoothed float model", _trial(params), tolerance, hint="leave `smooth` out")
    onnx.load_external_data_for_model(model, str(context.output))  # saving empties what goes beside the model
    for path in context.output.iterdir():
        path.unlink()


def _quantize(context: Context, params: Params, prepared: Prepared) -> ModelProto:
    import numpy as np
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    from orun.stages._graph.io import load
    from orun.stages.quantize._calibration import histograms_told, reader_of
    from orun.stages.quantize._float8 import AROUND, OPERATORS

    float8 = params.weight_type == FLOAT8
    result = prepared.path.with_name("quantized.onnx")
    reader = reader_of(context, prepared.dataset, prepared.ranks)
    # A mask may span all of float32, whose width overflows.
    with histograms_told(context, prepared.path), np.errstate(over="ignore", invalid="ignore"):
        quantize_static(
            prepared.path,
            result,
            reader,
            quant_format=QuantFormat.QDQ if params.format == "qdq" else QuantFormat.QOperator,
            op_types_to_quantize=params.op_types or (list(OPERATORS) if float8 else None),
            per_channel=params.per_channel,
            reduce_range=params.reduce_range,
            activation_type=QuantType[TYPES.get(params.activation_type, "QInt8")],
            weight_type=QuantType[TYPES.get(params.weight_type, "QInt8")],
            nodes_to_quantize=params.include,
            nodes_to_exclude=[*params.exclude, *prepared.masks],
            use_external_data_format=True,
            calibrate_method=CalibrationMethod[METHODS.get(params.method, "MinMax")],
            extra_options={
                "ActivationSymmetric": params.symmetric or float8,
                **(AROUND if float8 else {}),
                "CalibMovingAverage": params.moving_average,
                "CalibPercentile": PERCENTILE if params.percentile is None else params.percentile,
                "TensorQuantOverrides": prepared.overrides,
                # Histograms of examples that differ in shape cannot be taken together, only one after another.
                "CalibStridedMinMax": 1
                if reader.shapes_differ and params.method in ("entropy", "percentile")
                else None,
            },
        )
    return load(result)
