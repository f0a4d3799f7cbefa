"""`measure/startup` and `measure/memory` on real launches of small models."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.core.metrics import Estimate, Metric
from orun.core.targets import Target
from orun.measure.latency.cold_start import Request, launch_cold
from orun.stages.cold_start import Launches, prepare
from orun.stages.contract import MODEL, Context
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
    inputs = {"model": artifact(tmp_path, weighing(17)), "reference": artifact(tmp_path, weighing(1))}
    run = run_stage("measure/memory", tmp_path, {"runs": 1}, inputs=inputs)
    assert list(run.metrics) == ["peak", "added", "held", "arena"]
    added = run.metrics["added"]
    assert added.reference is not None
    assert 16 * MEBIBYTE <= added.reference.difference.value <= 16 * 3.5 * MEBIBYTE  # read, unpacked, laid out anew
    assert added.interval is not None
    assert added.interval.low <= added.value <= added.interval.high
    assert run.value("peak") >= run.value("held") >= 17 * MEBIBYTE
    launches = json.loads((run.output / "launches.json").read_text("utf-8"))["model"]
    for name in ("peak", "held"):
        assert run.value(name) == sorted(one[name] for one in launches)[2]
    assert added.value == sorted(one["peak"] - one["before"] for one in launches)[2]
    assert run.progress[-1] == (14, 14, "launches")
    arena = run.metrics["arena"]
    assert (arena.noise, arena.interval, arena.unit) == ("none", None, "B")
    assert arena.reference is not None
    assert 16 * MEBIBYTE <= arena.reference.difference.value <= 16 * 3.5 * MEBIBYTE  # the weights, and laid out anew
    watched = json.loads((run.output / "watched.json").read_text("utf-8"))
    assert (watched["arena"]["model"], watched["gpu"]) == (arena.value, {})


def test_without_an_arena_none_is_taken(tmp_path: Path) -> None:
    model = artifact(tmp_path, weighing(1)) / MODEL
    plain = Target("plain", session={"enable_cpu_mem_arena": False})
    feed = {"x": np.ones((1, 256), np.float32)}
    assert launch_cold(Request(model, plain, runs=1, watched=True), feed).arena == 0


def test_startup_is_loading_and_the_first_inference(tmp_path: Path) -> None:
    params = {"launches": 6, "io_binding": True}
    run = run_stage("measure/startup", tmp_path, params, inputs={"model": artifact(tmp_path, weighing(1))})
    assert list(run.metrics) == ["load", "first", "ready"]
    launches = json.loads((run.output / "launches.json").read_text("utf-8"))["model"]
    for name, times in (
        ("load", [launch["load"] for launch in launches]),
        ("first", [launch["first"] for launch in launches]),
        ("ready", [launch["load"] + launch["first"] for launch in launches]),
    ):
        first, _, median, _, _, last = sorted(times)
        assert run.metrics[name] == Metric(median, "s", "lower", "timing", Estimate(median, first, last))


@pytest.mark.parametrize("bound", [False, True])
def test_values_are_bound_where_that_is_asked_for(tmp_path: Path, *, bound: bool) -> None:
    model, target = artifact(tmp_path, weighing(1)), Target("cpu")
    log = logging.getLogger("test")
    context = Context(
        "startup", {"model": model}, tmp_path, tmp_path, target, 0, None, None, lambda: log, lambda *_: None
    )
    requests, fed = prepare(context, Launches(io_binding=bound), runs=3)
    assert requests == {"model": Request(model / MODEL, target, runs=3, bound=bound)}
    assert fed["model"]["x"].shape == (1, 256)
