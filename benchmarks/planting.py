"""Planted slow-downs: extra nodes without effect on the outputs, and processes that make noise."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

NOISE_SECONDS = (0.2, 2.0)  # range of the times for which a noise process works, and rests


def plant(source: Path, target: Path, sites: int, rank: int) -> None:
    """Write a slower model with the same outputs: x + (x A) B replaces x at some tensors, and A and B are zero.

    Args:
        source: path of the model.
        target: path of the slower model.
        sites: number of tensors, evenly spread.
        rank: columns of A, to which the added time is proportional.

    Raises:
        ValueError: when no tensor of the model has a known last size.
    """
    model = onnx.load(source)
    graph = model.graph
    for number, (name, width) in enumerate(_sites(model, sites)):
        first = np.zeros((width, rank), dtype=np.float32)
        tensors = {f"planted_a{number}": first, f"planted_b{number}": first.T.copy()}
        graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in tensors.items())
        place = next(index for index, node in enumerate(graph.node) if name in node.output)
        slower = f"planted_{number}"
        for node in graph.node:
            for index, tensor in enumerate(node.input):
                if tensor == name:
                    node.input[index] = slower
        added = [
            helper.make_node("MatMul", [name, f"planted_a{number}"], [f"{slower}_x"], f"{slower}_x"),
            helper.make_node("MatMul", [f"{slower}_x", f"planted_b{number}"], [f"{slower}_y"], f"{slower}_y"),
            helper.make_node("Add", [name, f"{slower}_y"], [slower], slower),
        ]
        for offset, node in enumerate(added):
            graph.node.insert(place + 1 + offset, node)
    onnx.save(model, target)


def _sites(model: onnx.ModelProto, count: int) -> list[tuple[str, int]]:
    """Return the names and last sizes of tensors with at least two axes, evenly spread."""
    graph = shape_inference.infer_shapes(model).graph
    outputs = {value.name for value in graph.output}
    widths = {
        value.name: value.type.tensor_type.shape.dim[-1].dim_value
        for value in graph.value_info
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        and len(value.type.tensor_type.shape.dim) > 1
        and value.type.tensor_type.shape.dim[-1].dim_value > 1
        and value.name not in outputs
    }
    names = [name for node in graph.node for name in node.output if name in widths and node.op_type in ("Add", "Relu")]
    if not names:
        raise ValueError("the model has no tensor to plant nodes at")
    chosen = [names[len(names) * index // count] for index in range(count)]
    return [(name, widths[name]) for name in dict.fromkeys(chosen)]


@contextlib.contextmanager
def noise(processes: int, seed: int) -> Iterator[None]:
    """Run processes that work half of the time, until the block ends."""
    context = multiprocessing.get_context("fork")
    hogs = [context.Process(target=_hog, args=(seed + index, os.getpid()), daemon=True) for index in range(processes)]
    for hog in hogs:
        hog.start()
    try:
        yield
    finally:
        for hog in hogs:
            hog.terminate()
            hog.join()


def _hog(seed: int, parent: int) -> None:
    randomness = random.Random(seed)
    data = np.ones(1 << 20)
    while os.getppid() == parent:
        end = time.monotonic() + randomness.uniform(*NOISE_SECONDS)
        while time.monotonic() < end:
            data *= 1.0  # memory and arithmetic, as a neighbour would
        time.sleep(randomness.uniform(*NOISE_SECONDS))
