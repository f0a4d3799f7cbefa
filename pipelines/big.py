"""A model of more than 2 GB with external data, made on the spot: wide matrix products with made-up weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from orun import Context, stage

DATA = "model.onnx.data"
OPSET = 21


@stage(inputs={}, output="onnx", metrics=["weights"], tools=["onnx", "numpy"])
def wide(context: Context, *, layers: int = 33, width: int = 4096) -> dict[str, int]:
    """Write the model of `write`, of a little more than a protobuf message can hold; its weights follow the seed."""
    return {"weights": write(context.output, layers, width, context.seed)}


def write(folder: Path, layers: int, width: int, seed: int = 0) -> int:
    """Write `model.onnx` and its weights to a folder, one matrix at a time.

    It takes `x` `[batch, width]` float32 and yields `y` of the same shape: products with matrices of random numbers,
    with ReLU after each, scaled so that values neither grow nor fade.

    Returns:
        Bytes of the weights.
    """
    generator = np.random.default_rng(seed)
    nodes, weights, value, offset = [], [], "x", 0
    with (folder / DATA).open("wb") as data:
        for number in range(layers):
            matrix = generator.standard_normal((width, width), dtype=np.float32) * np.float32((2 / width) ** 0.5)
            weights.append(_external(f"weight_{number}", matrix.shape, offset, matrix.nbytes))
            offset += data.write(matrix.tobytes())
            result = "y" if number == layers - 1 else f"hidden_{number}"
            product = helper.make_node("MatMul", [value, f"weight_{number}"], [f"product_{number}"], f"matmul_{number}")
            nodes += [product, helper.make_node("Relu", [f"product_{number}"], [result], f"relu_{number}")]
            value = result
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), folder / "model.onnx"
    )
    return offset


def _external(name: str, shape: tuple[int, ...], offset: int, length: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, entry in (("location", DATA), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(entry))
    return tensor
