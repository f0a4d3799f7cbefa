"""Store weights in 8 bits and quantize activations while the model runs, with ONNX Runtime.

No calibration data is needed. The stage checks on made-up inputs that the result runs and that every output is finite.
To find out how accurate it is, put `measure/accuracy` after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Dims, Excluded, Preprocess
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto

WEIGHT_COPIES = 3.2  # peak memory as a multiple of the weights
ATTENTION_BIAS = 5  # index of the bias among the inputs of ONNX Runtime's Attention


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/dynamic`."""

    weight_type: Annotated[Literal["int8", "uint8"], Doc("How weights are stored.")] = "int8"
    per_channel: Annotated[
        bool, Doc("One scale for each output channel: more exact if channels differ, and about as fast.")
    ] = False
    reduce_range: Annotated[
        bool,
        Doc(
            "Use 7 of the 8 bits for weights. x86-64 processors without VNNI instructions need it: their int8 sums "
            "overflow silently with all 8."
        ),
    ] = False
    op_types: Annotated[
        list[Literal["Attention", "Conv", "EmbedLayerNormalization", "Gather", "LSTM", "MatMul", "Transpose"]] | None,
        Doc("Types of operators to quantize; all of these when left out."),
    ] = None
    exclude: Excluded = field(default_factory=list)
    preprocess: Preprocess = True
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to quantize.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("onnx", "onnxruntime", "onnxruntime.quantization"),
    metrics={"size": SIZE, "nodes": LOWER, "quantized": HIGHER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the quantized model to `context.result`."""
    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import load_graph, save, weigh
    from orun.stages.memory_headroom import require_memory
    from orun.stages.quantize._integers import (
        explain_weights,
        find_integer_weights,
        quantizing,
        require_integers,
        require_types,
    )

    require_types(context, params.op_types)
    require_memory(context, WEIGHT_COPIES)
    with TemporaryDirectory(dir=".") as folder:  # the quantizer writes temporary files next to its input
        path = Path(folder, "float.onnx")
        op_types = _prepare(context, params, path)
        with quantizing(context, path, "leave nodes out: `exclude`"):
            result = _quantize(path, op_types, params)
        before = load_graph(path)
    why = "only MatMul, Attention, Conv, LSTM and Gather with constant weights are"
    quantized = require_integers(context, result, why, before=find_integer_weights(before))
    tidy_domains(result)
    save(result, context.result)
    _, hint = explain_weights(before) or ("", "")
    error = check_against_input(context, "the quantized model", Trial(params.dims, params.inputs), None, hint=hint)
    return {**weigh(context.result), "quantized": quantized, "max_abs_error": error}


def _prepare(context: Context, params: Params, path: Path) -> list[str]:
    """Write the float model to a path; return the types of operators to quantize."""
    from orun.stages._graph.agreement import Trial
    from orun.stages._graph.io import load, save
    from orun.stages._graph.ort_graph import IN_THE_WAY, add_types, optimize
    from orun.stages.quantize._embeddings import keep_positions
    from orun.stages.quantize._integers import is_quantized
    from orun.stages.quantize._shared_weights import separate_transposed

    model = optimize(context.model(), "basic", IN_THE_WAY) if params.preprocess else load(context.model())
    require_known("exclude", params.exclude, [node.name for node in model.graph.node])
    _require_unbiased(context, model, params)
    is_selected = partial(is_quantized, params.op_types, params.exclude, ())
    keep_positions(context, model, is_selected, Trial(params.dims, params.inputs))
    separate_transposed(model)
    model = add_types(model)
    for value in model.graph.value_info:  # the quantizer infers shapes itself, and fails where these contradict it
        if value.type.HasField("tensor_type"):  # to clear it would turn a sequence into a tensor
            value.type.tensor_type.ClearField("shape")
    save(model, path, external=True)
    if not (op_types := _choose_op_types(model, params)):  # ONNX Runtime would take an empty list for all types
        raise context.failed(
            "nothing in the model could be quantized",
            why="its Attention is the standard's own, for which ONNX Runtime has no integers",
            hint="name other `op_types`, such as MatMul",
        )
    return op_types


def _require_unbiased(context: Context, model: ModelProto, params: Params) -> None:
    """Refuse an Attention with a bias (mask, positions), which ONNX Runtime's quantizer would drop, as of 1.31."""
    if params.op_types is not None and "Attention" not in params.op_types:
        return
    biased = [
        node.name
        for node in model.graph.node
        if node.op_type == "Attention"
        and node.domain
        and len(node.input) > ATTENTION_BIAS
        and node.input[ATTENTION_BIAS]
    ]
    if losing := [name for name in biased if name not in params.exclude]:
        raise context.failed(
            f"quantized, {len(losing)} of the model's attentions would lose their masks and biases",
            why=f"ONNX Runtime's quantizer drops the attention bias of {', '.join(losing)}",
            hint="fuse with `multi_head_attention: true`, which keeps the projections separate, or name them in "
            "`exclude`",
        )


def _choose_op_types(model: ModelProto, params: Params) -> list[str]:
    """Return the types to quantize, without the standard's Attention.

    ONNX Runtime's quantizer takes that for its own operator of this name, as of 1.31.
    """
    from onnxruntime.quantization.registry import IntegerOpsRegistry

    from orun.stages._graph.domains import STANDARD

    chosen = list(IntegerOpsRegistry) if params.op_types is None else params.op_types
    standard = {node.op_type for node in model.graph.node if node.domain in STANDARD}
    return [name for name in chosen if name != "Attention" or name not in standard]


def _quantize(source: Path, op_types: list[str], params: Params) -> ModelProto:
    """Return the quantized model; temporary files go next to the source."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from orun.stages._graph.io import load
    from orun.stages._graph.nodes import sort_nodes

    result = source.with_name("quantized.onnx")
    quantize_dynamic(
        source,
        result,
        op_types_to_quantize=op_types,
        per_channel=params.per_channel,
        reduce_range=params.reduce_range,
        weight_type=QuantType.QInt8 if params.weight_type == "int8" else QuantType.QUInt8,
        nodes_to_exclude=[*params.exclude, *(f"{name}_MatMul" for name in params.exclude)],  # it renames each Gemm so
        use_external_data_format=True,
    )
    model = load(result)
    sort_nodes(model.graph)  # the quantizer does not see which outer values the graphs of an If or Loop read
    return model
