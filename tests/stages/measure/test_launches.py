"""`measure/startup` and `measure/memory` on real launches of small models."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.core.metrics import Estimate, Metric
from orun.core.targets import Target
from orun.measure.latency.cold_start import Request, launch_cold
from orun.stages.cold_start import Launches, prepare
from orun.stages.contract import MODEL, Context
from tests.stages.support import artifact, run_stage

MEBIBYTE = 1 << 20


def weighing(mebibytes: int) -> onnx.ModelProto:
    """`y = x @ w` whose weights take so many MiB."""
    width = mebibytes * 1024
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 20]> g (float[n, 256] x) => (float[n, {width}] y) {{ y = MatMul (x, w) }}'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((256, width), np.float32), "w"))
    return model


@pytest.mark.slow
def test_memory_is_what_the_weights_take(tmp_path: Path) -> None:
    run = run_stage("measure/memory", tmp_path, {"runs": 1}, inputs={"model": artifact(tmp_path, weighing(16))})
    assert list(run.metrics) == ["peak", "added", "held", "arena"]
    launches = json.loads((run.output / "launches.json").read_text("utf-8"))["model"]
    for name, sizes in (
        ("peak", [launch["peak"] for launch in launches]),
        ("added", [launch["peak"] - launch["before"] for launch in launches]),
        ("held", [launch["held"] for launch in launches]),
    ):
        least, _, median, _, _, most = sorted(sizes)
        assert run.metrics[name] == Metric(median, "B", "lower", "timing", Estimate(median, least, most))
    assert run.value("peak") >= run.value("held") >= run.value("added") >= 16 * MEBIBYTE
    watched = json.loads((run.output / "watched.json").read_text("utf-8"))
    assert watched == {"arena": {"model": run.value("arena")}, "gpu": {}}
    assert run.metrics["arena"] == Metric(watched["arena"]["model"], "B", "lower")
    assert run.progress[-1] == (7, 7, "launches")


@pytest.mark.slow
def test_memory_is_compared_with_that_of_a_reference(tmp_path: Path) -> None:
    inputs = {"model": artifact(tmp_path, weighing(32)), "reference": artifact(tmp_path, weighing(1))}
    run = run_stage("measure/memory", tmp_path, {"runs": 2}, inputs=inputs)
    for name in ("added", "arena"):
        comparison = run.metrics[name].reference
        assert comparison is not None
        assert 31 * MEBIBYTE <= comparison.difference.value <= 31 * 3.5 * MEBIBYTE  # read, unpacked, laid out anew
    assert run.progress[-1] == (14, 14, "launches")


def test_without_an_arena_none_is_taken(tmp_path: Path) -> None:
    model = artifact(tmp_path, weighing(1)) / MODEL
    plain = Target("plain", session={"enable_cpu_mem_arena": False})
    feed = {"x": np.ones((1, 256), np.float32)}
    assert launch_cold(Request(model, plain, runs=1, watched=True), feed).arena == 0


@pytest.mark.slow  # its launches are those of memory, above
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
