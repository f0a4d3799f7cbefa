"""Tiny models to time, and made-up launches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from orun.core.targets import Target
from orun.measure.benchmark_case import BenchmarkCase, SessionInfo
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.launch import Launch
from orun.measure.latency.timing_method import Method

WIDTH = 32
ALONE = Work(process=1.0, thread=1.0, awake=1.0, most=1.0, busy=1)
MANY = 20_000  # examples in a batch that two threads share
ONE_THREAD = Target("cpu", session={"intra_op_num_threads": 1})


def save_model(path: Path, layers: int = 2) -> Path:
    """Save a stack of matrix products, `x [batch, 32]` to `y`."""
    weights = [np.eye(WIDTH, dtype=np.float32) for _ in range(layers)]
    tensors = [numpy_helper.from_array(weight, f"w{place}") for place, weight in enumerate(weights)]
    names = ["x", *(f"h{place}" for place in range(1, layers)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[place], f"w{place}"], [names[place + 1]], name=f"layer{place}")
        for place in range(layers)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def case_of(path: Path, target: Target = ONE_THREAD) -> BenchmarkCase:
    return BenchmarkCase(path, target, {"x": np.ones((4, WIDTH), dtype=np.float32)})


def case_on_two_threads(path: Path) -> BenchmarkCase:
    two = Target("cpu", session={"intra_op_num_threads": 2})
    return BenchmarkCase(path, two, {"x": np.ones((MANY, WIDTH), dtype=np.float32)})


def launched(
    walls: Mapping[str, list[float]],
    ratios: Mapping[str, float],
    method: Method = "thread",
    load: Mapping[str, float] | None = None,
) -> Launch:
    """Return a launch in which inferences took `walls`, alone and interleaved, with these log ratios."""
    times = {
        name: Times(np.array(wall), 0.9 * np.array(wall), 0.95 * np.array(wall), 0.1 * sum(wall))
        for name, wall in walls.items()
    }
    loads = load or dict.fromkeys(walls, 0.2)
    return Launch(
        method=method,
        core=1 if method == "thread" else None,
        sessions={
            name: SessionInfo(loads[name], 2 * wall[0], wall[0], ALONE, processor=True) for name, wall in walls.items()
        },
        alone=times["model"],
        interleaved=times,
        inference_seconds={name: float(np.median(part.cpu)) for name, part in times.items()},
        pairs={name: [ratio] for name, ratio in ratios.items()},
        log_ratios=ratios,
        waiting=0.1,
    )
