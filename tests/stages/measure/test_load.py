"""`measure/load` on a real model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orun.core.metrics import Estimate, Metric
from orun.errors import StageFailed
from orun.measure import resource_usage
from tests.measure.test_resource_usage import package
from tests.stages.models import ADD, parse
from tests.stages.release.support import make_bundle
from tests.stages.support import artifact, run_stage
from tests.thin import mostly_slow

TWO_WIDE = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, k] x) => (float[n, 3] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> { y = MatMul(x, w) }
"""
QUICK = {"warmup": 0.01, "time": 0.05, "batch": 2}


@pytest.mark.parametrize("io_binding", mostly_slow([False, True], False))
def test_a_closed_loop_over_a_pool(tmp_path: Path, *, io_binding: bool) -> None:
    ports = {"model": artifact(tmp_path, parse(ADD)), "reference": artifact(tmp_path, parse(ADD))}
    params = {**QUICK, "clients": 3, "sessions": 2, "io_binding": io_binding}
    run = run_stage("measure/load", tmp_path, params, inputs=ports)
    assert run.value("served") == 1
    assert 0 < run.value("p50") <= run.value("p90") <= run.value("p99") <= run.value("max")
    assert run.metrics["throughput"].better == "higher"
    assert run.metrics["p99"].better == "lower"
    assert run.metrics["p50"].reference is not None
    written = json.loads((run.output / "load.json").read_text())
    assert (written["clients"], written["rate"], set(written["rounds"])) == (3, None, {"model", "reference"})
    with np.load(run.output / "latencies.npz") as latencies:
        for number, round_written in enumerate(written["rounds"]["model"]):
            assert len(latencies[f"model/{number}"]) == round_written["requests"] == round_written["answered"]
        message = {f"{role}/{number}" for role, rounds in written["rounds"].items() for number in range(len(rounds))}
        assert set(latencies) == message


@pytest.mark.slow
def test_resources_of_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = tmp_path / "powercap"
    package(counters, 0, 5)
    monkeypatch.setattr(resource_usage, "POWERCAP", counters)
    run = run_stage("measure/load", tmp_path, QUICK, inputs={"model": artifact(tmp_path, parse(ADD))})
    written = json.loads((run.output / "load.json").read_text())
    assert all(round_written["resources"]["cpu"] > 0 for round_written in written["rounds"]["model"])
    assert run.metrics["cpu_utilization"].unit == "ratio"
    assert run.metrics["cpu_energy"] == Metric(0.0, "J", "lower", "timing", Estimate(0.0, 0.0, 0.0))
    assert run.notes == ()


@pytest.mark.slow
def test_energy_that_cannot_be_read_is_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_usage, "POWERCAP", tmp_path / "none")
    run = run_stage("measure/load", tmp_path, QUICK, inputs={"model": artifact(tmp_path, parse(ADD))})
    reason = f"{tmp_path}/none has no RAPL counter of a processor package; virtual machines have none"
    assert "cpu_energy" not in run.metrics
    assert run.notes == (f"cpu_energy: not readable here: {reason}",)
    assert json.loads((run.output / "load.json").read_text())["not_readable"] == {"cpu_energy": reason}


def test_an_open_loop_sends_what_is_due(tmp_path: Path) -> None:
    params = {**QUICK, "rate": 100.0, "time": 0.1, "arrivals": "regular"}
    run = run_stage("measure/load", tmp_path, params, inputs={"model": artifact(tmp_path, parse(ADD))})
    written = json.loads((run.output / "load.json").read_text())
    assert [round_written["requests"] for round_written in written["rounds"]["model"]] == [10] * 6


def test_a_model_that_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/load", tmp_path, QUICK, inputs={"model": artifact(tmp_path, parse(TWO_WIDE))})
    assert caught.value.problem == "the model cannot answer a request"
    assert caught.value.hint == "set `shape`, or give `inputs` that fit"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"url": "http://127.0.0.1:1"}, "`url` and `served_name` are set together, or neither"),
        (
            {"url": "http://127.0.0.1:1", "served_name": "m", "sessions": 2},
            (
                "`sessions` is for a model in this process, and a server is to be driven\n"
                "  hint: leave out `sessions`; the stage of `release/server` has `workers`"
            ),
        ),
        (
            {"url": "http://127.0.0.1:1", "served_name": "m"},
            (
                "`url` is the server of one model, and reference is to be measured too\n"
                "  hint: connect a stage of `release/server` at the port `server` in its place, which can serve both"
            ),
        ),
    ],
)
def test_a_server_that_does_not_go_with_the_rest(tmp_path: Path, params: dict[str, object], message: str) -> None:
    ports = {"model": artifact(tmp_path, parse(ADD)), "reference": artifact(tmp_path, parse(ADD))}
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/load", tmp_path, {**QUICK, **params}, inputs=ports)
    assert str(caught.value) == message


def test_a_bundle_that_has_no_server(tmp_path: Path) -> None:
    ports = {"model": artifact(tmp_path, parse(ADD)), "server": make_bundle(tmp_path).output}
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/load", tmp_path, QUICK, inputs=ports)
    assert str(caught.value) == (
        "the bundle at the port `server` has no server\n  hint: connect a stage of `release/server`"
    )
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/load", tmp_path, {**QUICK, "url": "http://host", "served_name": "m"}, inputs=ports)
    assert str(caught.value) == "`url` and the port `server` name two servers\n  hint: leave one out"
