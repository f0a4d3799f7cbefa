"""Inspection of an ONNX model: inputs, layers, attention, size."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from orun.errors import UsageError
from orun.fs.os_errors import quoted
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts

QUANTIZABLE = ("MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU")
ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")


def inspect_onnx(name: str, path: Path) -> ModelFacts:
    """Return the facts about an ONNX file.

    Args:
        name: its path from the pipeline file.
        path: its path from here.

    Raises:
        UsageError: when it is no ONNX model, or its external data is not there.
    """
    from orun.stages._graph.domains import standard_opset
    from orun.stages._graph.io import external_files, load_graph, tensors
    from orun.stages._graph.signature import axes_of, inputs_of

    try:
        model = load_graph(path)
    except UsageError as error:
        hint = f"export it anew, or copy it again with the files beside it: ls -l {quoted(path.parent)}"
        raise UsageError(error.what, why=error.why, hint=error.hint or hint) from error
    inputs = tuple(
        InputFact(
            item.name,
            item.dtype,
            tuple(item.shape),
            None if item.high is None else int(item.high),
            "right-padded" if item.padded else "mask" if item.mask else "random",
        )
        for item in inputs_of(model)
    )
    types = Counter(node.op_type for node in model.graph.node)
    readers = {value: node.op_type for node in model.graph.node for value in node.input}
    scores = sum(
        readers.get(node.output[0]) == "MatMul"
        for node in model.graph.node
        if node.op_type == "Softmax" and node.output
    )
    files = [path, *(path.parent / location for location in external_files(model))]
    batch = {item.shape[:1] for item in inputs}
    graph = GraphFacts(
        inputs,
        outputs=tuple(value.name for value in model.graph.output),
        batched=tuple(value.name for value in model.graph.output if axes_of(value)[:1] in batch),
        layers={kind: types[kind] for kind in QUANTIZABLE if types[kind]},
        attention=scores + sum(types[kind] for kind in ATTENTION),
        parameters=sum(math.prod(tensor.dims) for tensor in tensors(model)),
        size=sum(file.stat().st_size for file in files),
        opset=standard_opset(model),
    )
    return ModelFacts("onnx", name, graph=graph)
