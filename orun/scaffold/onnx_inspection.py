"""Inspection of an ONNX model: inputs, layers, attention, size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts
from orun.stages._graph.io import iter_nodes

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

QUANTIZABLE = ("MatMul", "Gemm", "Conv", "Attention", "LSTM")
INTEGER = frozenset({
    "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QGemm", "QAttention", "MatMulNBits",
    "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat",
})  # fmt: skip


def inspect_onnx(name: str, path: Path) -> ModelFacts:
    """Return the facts about the ONNX file at a path; its name is the path from the pipeline file.

    Raises:
        UsageError: when it is no ONNX model, or its external data is not there.
    """
    from orun.scaffold.working_sizes import find_working_sizes
    from orun.stages._graph.domains import find_standard_opset
    from orun.stages._graph.implied_sizes import find_implied_sizes
    from orun.stages._graph.io import list_external_files, load_graph
    from orun.stages._graph.parameters import count_parameters
    from orun.stages._graph.signature import build_inputs, find_sizes, name_axes
    from orun.stages.optimize._fusion.census import ATTENTION, find_unfused

    try:
        model = load_graph(path)
    except UsageError as error:
        hint = f"export it anew, or copy it again with the files beside it: ls -l {quote(path.parent)}"
        raise UsageError(error.problem, why=error.why, hint=error.hint or hint) from error
    implied, declared = find_implied_sizes(model), find_sizes(model)
    outputs, unknown = tuple(value.name for value in model.graph.output), _list_unknown_operators(model)
    known = {axis: sizes for axis, sizes in implied.items() if len(sizes) == 1} | declared
    working = {} if unknown else find_working_sizes(path, build_inputs(model), outputs, known, implied)
    sizes = {**implied, **declared, **working}
    inputs = tuple(
        InputFact(
            item.name,
            item.dtype,
            tuple(_fix_axis(axis, sizes) for axis in item.shape),
            None if item.high is None else int(item.high),
            item.fill,
        )
        for item in build_inputs(model)
    )
    types = Counter(node.op_type for node in model.graph.node)
    files = [path, *(path.parent / location for location in list_external_files(model))]
    batch = {item.shape[:1] for item in inputs}
    graph = GraphFacts(
        inputs,
        outputs=outputs,
        batched=tuple(value.name for value in model.graph.output if name_axes(value)[:1] in batch),
        classes=tuple(value.name for value in model.graph.output if _get_kind(value) in "iub"),
        texts=tuple(value.name for value in model.graph.output if _get_kind(value) == "O"),
        scores=_count_scores(model),
        layers={kind: types[kind] for kind in QUANTIZABLE if types[kind]},
        attention=len(find_unfused(model)) + sum(types[kind] for kind in ATTENTION),
        parameters=count_parameters(model),
        size=sum(file.stat().st_size for file in files),
        opset=find_standard_opset(model),
        sizes=sizes,
        is_quantized=_is_quantized(model),
        is_single_valued=_is_single_valued(model),
        unknown=unknown,
    )
    return ModelFacts("onnx", name, sizes=working, graph=graph)


def _fix_axis(axis: int | str, sizes: Mapping[str, tuple[int, ...]]) -> int | str:
    """Return the only size that a dynamic axis can take, or the axis."""
    only = sizes.get(axis, ()) if isinstance(axis, str) else ()
    return only[0] if len(only) == 1 else axis


def _is_quantized(model: ModelProto) -> bool:
    """Return whether a node computes with integers, or takes quantized values that are not an input of the model."""
    inputs = {value.name for value in model.graph.input}
    return any(
        node.op_type in INTEGER or (node.op_type == "DequantizeLinear" and node.input[0] not in inputs)
        for node in iter_nodes(model)
    )


def _get_kind(output: ValueInfoProto) -> str:
    """Return NumPy's letter for the kind of an output's values, `O` for texts; `V` for what is no tensor."""
    from onnx import TensorProto, helper

    element = output.type.tensor_type.elem_type
    return "V" if element == TensorProto.UNDEFINED else helper.tensor_dtype_to_np_dtype(element).kind


def _is_single_valued(model: ModelProto) -> bool:
    """Return whether the outputs have no other floats than one for each example: `[batch]`, or `[batch, 1]`."""
    from orun.stages._graph.signature import name_axes

    floats = _list_floats(model)
    shapes = [name_axes(value) for value in floats if value.type.tensor_type.HasField("shape")]
    return 0 < len(floats) == len(shapes) and all(shape and set(shape[1:]) <= {1} for shape in shapes)


def _count_scores(model: ModelProto) -> int:
    """Return how many floats of an example are in the only output `[batch, scores]` of several; 0 without one."""
    from orun.stages._graph.signature import name_axes

    shapes = [name_axes(value) for value in _list_floats(model)]
    several = [shape for shape in shapes if {*shape[1:]} - {1}]
    matrix = 2
    sizes = [shape[1] for shape in several if len(several) == 1 and len(shape) == matrix]
    return next((size for size in sizes if isinstance(size, int)), 0)


def _list_floats(model: ModelProto) -> list[ValueInfoProto]:
    """Return the outputs of floats."""
    from onnx import TensorProto

    types = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return [value for value in model.graph.output if value.type.tensor_type.elem_type in types]


def _list_unknown_operators(model: ModelProto) -> tuple[str, ...]:
    """Return the operators that neither ONNX, nor ONNX Runtime, nor the model defines."""
    from onnx import defs

    from orun.measure.extension_operators import DOMAINS
    from orun.stages._graph.domains import STANDARD

    functions = {(function.domain, function.name) for function in model.functions}
    used = {(node.domain, node.op_type) for node in iter_nodes(model)} - functions
    standard = {operator for domain, operator in used if domain in STANDARD}
    undefined = tuple(operator for operator in sorted(standard) if not defs.has(operator))
    used = {(domain, operator) for domain, operator in used if domain not in (*STANDARD, *DOMAINS)}
    if not used:
        return undefined
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    known = {(schema.domain, schema.name) for schema in state.get_all_operator_schema()}
    return (*undefined, *(f"{domain}:{operator}" for domain, operator in sorted(used - known)))
