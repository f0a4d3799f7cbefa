"""`measure/startup` and `measure/memory` on real launches of small models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from orun.core.targets import Target
from tests.stages.support import artifact, run_stage

MEBIBYTE = 1 << 20


def weighing(mebibytes: int) -> onnx.ModelProto:
    """`y = x @ w` whose weights take so many MiB."""
    weight = np.ones((256, mebibytes * 1024), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weight.shape[1]])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_memory_is_what_the_weights_take(tmp_path: Path) -> None:
    inputs = {"model": artifact(tmp_path, weighing(32)), "reference": artifact(tmp_path, weighing(1))}
    run = run_stage("measure/memory", tmp_path, {"runs": 2}, inputs=inputs)
    assert list(run.metrics) == ["peak", "added", "held", "arena"]
    added = run.metrics["added"]
    assert added.reference is not None
    assert 31 * MEBIBYTE <= added.reference.difference.value <= 31 * 3.5 * MEBIBYTE  # read, unpacked, laid out anew
    assert added.interval is not None
    assert added.interval.low <= added.value <= added.interval.high
    assert run.value("peak") >= run.value("held") >= 32 * MEBIBYTE
    launches = json.loads((run.output / "launches.json").read_text("utf-8"))["model"]
    for name in ("peak", "held"):
        assert run.value(name) == sorted(one[name] for one in launches)[2]
    assert added.value == sorted(one["peak"] - one["before"] for one in launches)[2]
    assert run.progress[-1] == (14, 14, "launches")
    arena = run.metrics["arena"]
    assert (arena.noise, arena.interval, arena.unit) == ("none", None, "B")
    assert arena.reference is not None
    assert 31 * MEBIBYTE <= arena.reference.difference.value <= 31 * 3.5 * MEBIBYTE  # the weights, and laid out anew
    watched = json.loads((run.output / "watched.json").read_text("utf-8"))
    assert (watched["arena"]["model"], watched["gpu"]) == (arena.value, {})


def test_without_an_arena_none_is_taken(tmp_path: Path) -> None:
    plain = Target("plain", session={"enable_cpu_mem_arena": False})
    run = run_stage("measure/memory", tmp_path, inputs={"model": artifact(tmp_path, weighing(1))}, target=plain)
    assert run.value("arena") == 0


def test_startup_is_loading_and_the_first_inference(tmp_path: Path) -> None:
    run = run_stage("measure/startup", tmp_path, {"launches": 6}, inputs={"model": artifact(tmp_path, weighing(1))})
    assert list(run.metrics) == ["load", "first", "ready"]
    launches = json.loads((run.output / "launches.json").read_text("utf-8"))
    loads = sorted(one["load"] for one in launches["model"])
    assert len(loads) == 6
    metric = run.metrics["load"]
    assert metric.interval is not None
    assert (metric.value, metric.interval.low, metric.interval.high) == (loads[2], loads[0], loads[5])
    assert run.value("ready") in [one["load"] + one["first"] for one in launches["model"]]
