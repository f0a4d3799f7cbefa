"""Store the weights of matrix products in 4 or 8 bits, block by block; activations stay as they are.

The products become MatMulNBits, an operator of ONNX Runtime, or, with `format: qdq`, DequantizeLinear before MatMul. A
Gemm with a constant matrix, such as a Linear of PyTorch on two axes or the Conv1D of GPT-2, becomes a MatMul and an Add
first; one that scales its product (`alpha`, `beta`) stays as it is.
Only `gptq` needs calibration data: it rounds so that the products of typical inputs change little. It is orun's own
implementation, because the GPTQ of ONNX Runtime 1.31 does not compensate errors.

The stage checks on made-up inputs that the result runs and that every output is finite. To find out how accurate it is,
put `measure/accuracy` after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._data.source import Examples
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Dims, Excluded
from orun.stages.contract import Context, Port, Spec
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

INT4_SINCE = 21  # operator set
BYTE = 8
SAMPLES = 128  # default number of examples for GPTQ


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/weights`."""

    bits: Annotated[Literal[4, 8], Doc("Bits of a weight.")] = 4
    block_size: Annotated[Literal[16, 32, 64, 128, 256], Doc("Weights of a column that share a scale.")] = 32
    algorithm: Annotated[
        Literal["rtn", "hqq", "k_quant", "gptq"],
        Doc(
            "`rtn` rounds to the nearest; `hqq` searches better scales, is slow and needs PyTorch; `k_quant` gives "
            "larger weights more weight; `gptq` compensates each error in the weights that follow. `hqq` and `k_quant` "
            "have 4 bits only."
        ),
    ] = "rtn"
    dataset: Annotated[
        Examples | None, Doc("With `gptq`: typical inputs, as in `quantize/static`; made up when left out.")
    ] = None
    samples: Annotated[
        int | None,
        Doc("With `gptq`: use only so many examples, spread evenly over the data; 128 when left out."),
        Range(1),
    ] = None
    symmetric: Annotated[bool, Doc("No zero points; with `rtn` and `gptq`.")] = False
    accuracy_level: Annotated[
        Literal[0, 1, 2, 3, 4],
        Doc(
            "Least precision of the product: 1 float32, 2 float16, 3 bfloat16, 4 int8; 0 leaves it to ONNX Runtime. "
            "With `rtn` and `gptq`."
        ),
    ] = 0
    format: Annotated[
        Literal["qoperator", "qdq"],
        Doc("MatMulNBits, or DequantizeLinear before MatMul; the latter with `rtn` and 4 bits."),
    ] = "qoperator"
    exclude: Excluded = field(default_factory=list)
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to quantize.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "onnx-ir", "ml-dtypes", "numpy"),
    extra="cpu",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "quantized": HIGHER, "max_abs_error": LOWER},
    calibration_params=("dataset",),
)


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that a parameter needs."""
    return {"torch": "`algorithm: hqq`"} if params.algorithm == "hqq" else {}


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the quantized model to `context.result`."""
    from orun.stages._graph.agreement import check_against_input
    from orun.stages._graph.io import iter_nodes, load, save, weigh
    from orun.stages._graph.plain import fold_transposes, hoist, inline, split_gemm
    from orun.stages.quantize._calibration import make_trial
    from orun.stages.quantize._integers import build_nothing_quantized_error

    model = inline(load(context.model()))
    require_known("exclude", params.exclude, [node.name for node in iter_nodes(model)])
    _require_supported(context, params, model)
    hoist(model)
    split_gemm(model, params.exclude)
    fold_transposes(model)
    _require_finite(context, params, model)
    result = _quantize_gptq(context, params, model) if params.algorithm == "gptq" else _quantize(context, params, model)
    op_type = "MatMulNBits" if params.format == "qoperator" else "DequantizeLinear"
    quantized = sum(node.op_type == op_type for node in iter_nodes(result))
    if not quantized:
        why = "it has no MatMul or Gemm whose right side is a constant matrix"
        raise build_nothing_quantized_error(context, result, why, "look at `exclude`")
    save(result, context.result)
    compared = make_trial(
        params.dims, params.inputs, ranges_made_up=params.algorithm == "gptq" and params.dataset is None
    )
    error = check_against_input(context, "the quantized model", compared, None)
    return {**weigh(context.result), "quantized": quantized, "max_abs_error": error}


def _require_finite(context: Context, params: Params, model: ModelProto) -> None:
    """Refuse matrices with NaN or infinity: the quantizers would turn them into numbers."""
    from orun.stages._graph.io import iter_nodes, iter_tensors
    from orun.stages.quantize._integers import find_not_finite

    products = [node for node in iter_nodes(model) if node.op_type == "MatMul" and node.name not in params.exclude]
    read = {name for node in products for name in node.input}
    if names := find_not_finite(tensor for tensor in iter_tensors(model) if tensor.name in read):
        raise context.failed(
            f"not all values of {', '.join(names)} are finite",
            hint="find out what made them so, or leave out the nodes that read them: `exclude`",
        )


def _require_supported(context: Context, params: Params, model: ModelProto) -> None:
    """Refuse parameters that the algorithm would ignore or that the operator set does not support."""
    from orun.stages._graph.domains import find_standard_opset

    settings = {  # whether it is set, and the algorithms that take it
        "dataset": (params.dataset is not None, ("gptq",)),
        "samples": (params.samples is not None, ("gptq",)),
        "symmetric": (params.symmetric, ("rtn", "gptq")),
        "accuracy_level": (params.accuracy_level != 0, ("rtn", "gptq")),
        "format: qdq": (params.format == "qdq", ("rtn",)),
        "bits: 8": (params.bits == BYTE, ("rtn", "gptq")),
    }
    for name, (is_set, algorithms) in settings.items():
        if is_set and params.algorithm not in algorithms:
            needed = " or ".join(f"`algorithm: {algorithm}`" for algorithm in algorithms)
            raise context.failed(f"`{name}` needs {needed}, not {params.algorithm}")
    if params.format == "qdq" and params.bits == BYTE:
        raise context.failed("`format: qdq` has 4 bits only", hint="`bits: 8` needs `format: qoperator`")
    version = find_standard_opset(model)
    if params.format == "qdq" and version < INT4_SINCE:
        raise context.failed(
            f"`format: qdq` needs operator set {INT4_SINCE}, and the model has {version}",
            hint=f"put `convert/opset` with `version: {INT4_SINCE}` before it",
        )


def _quantize(context: Context, params: Params, model: ModelProto) -> ModelProto:
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    from orun.stages._graph.domains import tidy_domains

    message = f"ONNX Runtime cannot quantize the model by {params.algorithm}"
    with failing(context, message, "try `algorithm: rtn`, or another `block_size`"), warnings_to(context.log):
        quantizer = MatMulNBitsQuantizer(
            model,
            bits=params.bits,
            block_size=params.block_size,
            is_symmetric=params.symmetric,
            accuracy_level=params.accuracy_level or None,
            nodes_to_exclude=[*params.exclude, *_list_unsupported(context, model)],
            quant_format=QuantFormat.QDQ if params.format == "qdq" else QuantFormat.QOperator,
            algo_config=_build_config(params),
        )
        quantizer.process()
    result: ModelProto = quantizer.model.model
    tidy_domains(result)
    return result


def _quantize_gptq(context: Context, params: Params, model: ModelProto) -> ModelProto:
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import list_input_names
    from orun.stages.quantize._calibration import load_calibration_data
    from orun.stages.quantize._gptq import Grid, quantize

    names, samples = list_input_names(model), params.samples or SAMPLES
    dataset = load_calibration_data(context, params.dataset, names, samples, params.dims, params.inputs)
    grid = Grid(params.bits, params.block_size, params.symmetric)
    quantize(model, grid, dataset, params.exclude, params.accuracy_level)
    tidy_domains(model)
    return model


def _list_unsupported(context: Context, model: ModelProto) -> list[str]:
    """Return the names of products of matrices in types that MatMulNBits does not have; nameless ones get a name."""
    from onnx import TensorProto

    from orun.stages._graph.io import iter_nodes, iter_tensors
    from orun.stages._graph.names import make_unique

    supported = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    weights = {tensor.name for tensor in iter_tensors(model) if tensor.data_type not in supported}
    names = {node.name for node in iter_nodes(model)}
    products = [node for node in iter_nodes(model) if node.op_type == "MatMul" and not weights.isdisjoint(node.input)]
    for node in products:
        node.name = node.name or make_unique(f"{node.output[0]}/product", names)
    if products:
        text = "%d products stay as they are, because MatMulNBits does not support their type:\n  %s"
        context.log.info(text, len(products), "\n  ".join(node.name for node in products))
    return [node.name for node in products]


def _build_config(params: Params) -> Any:
    """Return the settings of an algorithm other than `rtn`, whose settings are the quantizer's options."""
    from onnxruntime.quantization import matmul_nbits_quantizer as quantizers

    if params.algorithm == "hqq":
        return quantizers.HQQWeightOnlyQuantConfig(block_size=params.block_size, bits=params.bits)
    return quantizers.KQuantWeightOnlyQuantConfig() if params.algorithm == "k_quant" else None
