"""From launches to metrics and records: exact figures from launches with known times."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orun.core.metrics import Disturbance, Estimate
from orun.measure.latency.cpu_cores import SHARED_ERROR
from orun.measure.latency.cuda_streams import StreamTimes
from orun.measure.latency.launch import Launch
from orun.measure.latency.measurement import Measurement
from orun.measure.latency.metrics import build_metrics
from orun.measure.latency.pressure import Pressure
from orun.measure.latency.record import summarize, write
from orun.measure.latency.sequential_test import SHARED, Evidence
from orun.stages.measure.latency import SPEC
from tests.measure.support import case_of, launched

MODEL = [0.010, 0.011, 0.012, 0.013, 0.014]
REFERENCE = [0.020, 0.021, 0.022, 0.023, 0.024]
RATIOS = (-0.60, -0.61, -0.62)


def measurement(*launches: Launch) -> Measurement:
    return Measurement(launches, 6.5, Pressure(0.25, 3.0))


@pytest.fixture
def beside_reference() -> Measurement:
    wall = {"model": MODEL, "reference": REFERENCE}
    return measurement(*(launched(wall, {"reference": ratio}) for ratio in RATIOS))


def test_names_and_units(beside_reference: Measurement) -> None:
    metrics = build_metrics(beside_reference, 1)
    assert (*metrics, "device", "host") == tuple(SPEC.metrics or ())
    assert {name: metric.unit for name, metric in metrics.items() if metric.unit != "s"} == {
        "throughput": "1/s",
        "speedup": "x",
    }
    assert {name for name, metric in metrics.items() if metric.better == "higher"} == {"throughput", "speedup"}
    assert {metric.noise for metric in metrics.values()} == {"timing"}


def test_time_on_a_stream_is_compared_with_those_that_have_one() -> None:
    """A reference on another target has none."""
    walls = {"model": MODEL, "reference": REFERENCE, "baseline": MODEL}
    ratios = {"reference": -0.6, "baseline": 0.0}
    times = {
        "model": StreamTimes(np.array([0.004, 0.005, 0.006]), np.array([0.001, 0.001, 0.001])),
        "baseline": StreamTimes(np.array([0.004, 0.004, 0.004]), np.array([0.002, 0.002, 0.002])),
    }
    metrics = build_metrics(measurement(*(replace(launched(walls, ratios), streamed=times) for _ in range(3))), 1)
    device, host = metrics["device"], metrics["host"]
    assert tuple(metrics) == tuple(SPEC.metrics or ())
    assert device.value == pytest.approx(0.005)
    assert (device.unit, device.better, device.noise) == ("s", "lower", "timing")
    assert (device.reference, host.reference) == (None, None)
    assert device.baseline is not None
    assert device.baseline.ratio.value == pytest.approx(1.25)
    assert device.baseline.method == "in turn on the device's stream, 3 launches"
    assert host.value == pytest.approx(0.001)
    assert host.baseline is not None
    assert host.baseline.ratio.value == pytest.approx(0.5)


def test_without_a_reference_there_is_no_speed_up() -> None:
    metrics = build_metrics(measurement(*(launched({"model": MODEL}, {}) for _ in range(3))), 1)
    assert "speedup" not in metrics
    assert metrics["p50"].reference is None
    assert metrics["p50"].baseline is None


def test_figures_of_the_model_alone(beside_reference: Measurement) -> None:
    metrics = build_metrics(beside_reference, 8)
    values = {name: metric.value for name, metric in metrics.items()}
    assert values["p50"] == 0.012
    assert values["p90"] == 0.014
    assert values["mean"] == pytest.approx(0.012)
    assert values["min"] == 0.010
    assert values["cpu"] == pytest.approx(0.9 * 0.012)
    assert values["load"] == pytest.approx(0.2)
    assert values["first"] == pytest.approx(0.02)
    assert values["throughput"] == pytest.approx(8 / 0.012)
    assert metrics["p99"].interval is not None
    assert metrics["p99"].interval.high == math.inf  # 15 times are too few


def test_quantiles_are_those_of_their_names() -> None:
    """Of 3000 times, which bound each of them."""
    times = [step / 1e5 for step in range(1, 1001)]
    metrics = build_metrics(measurement(*(launched({"model": times}, {}) for _ in range(3))), 1)
    measured = {name: metrics[name].value for name in ("p50", "p90", "p95", "p99")}
    assert measured == {"p50": 0.005, "p90": 0.009, "p95": 0.0095, "p99": 0.0099}


def test_what_is_measured_beside_others_is_no_figure_of_the_model_alone() -> None:
    alone = launched({"model": MODEL}, {}).alone
    slower = {"model": [2 * time for time in MODEL], "reference": REFERENCE}
    measured = measurement(*(replace(launched(slower, {"reference": -0.6}), alone=alone) for _ in range(3)))
    metrics = build_metrics(measured, 1)
    assert (metrics["p50"].value, metrics["max"].value) == (0.012, 0.014)
    assert metrics["mean"].value == pytest.approx(0.012)


def test_the_interval_of_a_figure_holds_it() -> None:
    """The largest of all times, which a single launch has, lies above what launches have on average."""
    walls = [[0.010]] * 7 + [[0.010, 0.030]]
    metric = build_metrics(measurement(*(launched({"model": wall}, {}) for wall in walls)), 1)["max"]
    launches = Evidence.from_log_ratios([math.log(max(wall)) for wall in walls]).ratio
    assert launches.high < 0.016
    assert metric.interval == Estimate(0.030, launches.low, 0.030)


def test_the_median_is_compared_by_the_paired_launches(beside_reference: Measurement) -> None:
    metrics = build_metrics(beside_reference, 1)
    evidence = Evidence.from_log_ratios(RATIOS, SHARED)
    for name, value in (("p50", 0.012 / math.exp(-0.61)), ("cpu", 0.9 * 0.012 / math.exp(-0.61))):
        comparison = metrics[name].reference
        assert comparison is not None
        assert comparison.ratio == evidence.ratio
        assert comparison.value == pytest.approx(value)
        assert comparison.difference.value == pytest.approx(value * (math.exp(-0.61) - 1))
        assert comparison.difference.low == pytest.approx(value * (evidence.ratio.low - 1))
        assert (comparison.method, comparison.count) == ("paired on-CPU time, 3 launches", 3)


def test_other_figures_are_compared_launch_by_launch() -> None:
    walls = [{"model": [0.01, 0.02 * step], "baseline": [0.01, 0.02]} for step in (1.0, 1.1, 1.21)]
    measured = measurement(*(launched(wall, {"baseline": 0.0}) for wall in walls))
    comparison = build_metrics(measured, 1)["p90"].baseline
    assert comparison is not None
    evidence = Evidence.from_log_ratios([0.0, math.log(1.1), math.log(1.21)])
    assert comparison.ratio.value == pytest.approx(1.1)
    assert (comparison.ratio.low, comparison.ratio.high) == pytest.approx((evidence.ratio.low, evidence.ratio.high))
    assert (comparison.method, comparison.count) == ("paired wall time, 3 launches", 3)


def test_loading_is_compared_once_a_launch() -> None:
    wall = {"model": MODEL, "baseline": MODEL}
    loads = [{"model": 0.3 * step, "baseline": 0.2} for step in (1.0, 1.1, 1.21)]
    metric = build_metrics(measurement(*(launched(wall, {"baseline": 0.0}, load=load) for load in loads)), 1)["load"]
    assert metric.value == pytest.approx(0.33)
    assert metric.baseline is not None
    assert metric.baseline.value == pytest.approx(0.2)
    assert metric.baseline.ratio.value == pytest.approx(1.65)
    assert metric.baseline.method == "one of each in a launch, 3 launches"


def test_the_speed_up_is_the_ratio_turned_over(beside_reference: Measurement) -> None:
    speedup = build_metrics(beside_reference, 1)["speedup"]
    assert speedup.value == pytest.approx(math.exp(0.61))
    assert speedup.interval is not None
    assert speedup.reference is not None
    assert speedup.reference.ratio == speedup.interval
    assert speedup.reference.value == 1.0
    assert speedup.reference.difference.high == pytest.approx(speedup.interval.high - 1)
    assert (speedup.reference.method, speedup.reference.count) == ("paired on-CPU time, 3 launches", 3)
    assert speedup.interval.low < speedup.value < speedup.interval.high


def test_the_speed_up_of_the_baseline() -> None:
    """The model takes half of the reference's time, and the baseline a quarter more than the model: 1.6 against 2."""
    wall = {"model": MODEL, "reference": REFERENCE, "baseline": MODEL}
    ratios = {"reference": math.log(0.5), "baseline": math.log(0.8)}
    speedup = build_metrics(measurement(*(launched(wall, ratios) for _ in range(3))), 1)["speedup"]
    assert speedup.value == pytest.approx(2.0)
    assert speedup.baseline is not None
    assert speedup.baseline.value == pytest.approx(1.6)
    assert speedup.baseline.ratio.value == pytest.approx(1.25)


def test_throughput_rises_as_the_mean_falls(beside_reference: Measurement) -> None:
    metrics = build_metrics(beside_reference, 4)
    throughput, mean = metrics["throughput"], metrics["mean"]
    assert throughput.reference is not None
    assert mean.reference is not None
    assert throughput.reference.value == pytest.approx(4 / 0.022)
    assert throughput.reference.method == "paired wall time, 3 launches"
    assert throughput.reference.ratio.value == pytest.approx(1 / mean.reference.ratio.value)
    assert throughput.reference.ratio.low == pytest.approx(1 / mean.reference.ratio.high)
    assert throughput.interval is not None
    assert mean.interval is not None
    assert throughput.interval.high == pytest.approx(4 / mean.interval.low)


def test_of_disturbed_launches_no_comparison_is_known(beside_reference: Measurement) -> None:
    """Only what was timed in turn: loading, and inferences of the model alone, are as users meet them."""
    noisy = replace(
        beside_reference, launches=[replace(launch, disturbed=True) for launch in beside_reference.launches]
    )
    known, metrics = build_metrics(beside_reference, 1), build_metrics(noisy, 1)
    assert {name for name, metric in metrics.items() if metric.disturbance} == {"cpu", "speedup"}
    compared = {name: metric.reference for name, metric in metrics.items() if metric.reference}
    assert {name for name, comparison in compared.items() if not comparison.disturbance} == {"load", "first"}
    for name, comparison in compared.items():
        if comparison.disturbance:
            assert comparison.disturbance == Disturbance(3, 3)
            assert (
                (comparison.ratio.low, comparison.ratio.high)
                == (comparison.difference.low, comparison.difference.high)
                == (-math.inf, math.inf)
            )
            assert comparison.ratio.value == known[name].reference.ratio.value  # type: ignore[union-attr]
    assert metrics["speedup"].interval == Estimate(known["speedup"].value, -math.inf, math.inf)
    assert metrics["p50"].interval == known["p50"].interval
    first, second = summarize(noisy)
    assert first == "paired on-CPU time: 0.54x of the reference's (95 % interval unknown, 3 launches)"
    assert second.startswith("3 launches in 6.5 s, 3 of them disturbed; threads waited for a core 10 % of the time; ")


def test_on_a_shared_core_intervals_against_a_reference_are_wider(beside_reference: Measurement) -> None:
    """The core is watched only where a reference is on one thread; what the model takes by itself is as measured."""
    launches = [replace(launch, yardstick=1.4) for launch in beside_reference.launches]
    shared = [replace(launch, disturbed=True) for launch in launches]
    known, metrics = (build_metrics(replace(beside_reference, launches=part), 1) for part in (launches, shared))
    assert {name for name, metric in metrics.items() if metric.disturbance} == {"speedup"}
    for name in ("p50", "cpu", "mean"):
        before, after = known[name].reference, metrics[name].reference
        assert before is not None
        assert after is not None
        assert after.disturbance == Disturbance(3, 3, shared=True)
        assert after.ratio.value == before.ratio.value
        assert after.ratio.low == pytest.approx(before.ratio.low * math.exp(-SHARED_ERROR))
        assert after.ratio.high == pytest.approx(before.ratio.high * math.exp(SHARED_ERROR))
    assert metrics["cpu"].interval == known["cpu"].interval


def test_on_a_shared_core_a_baseline_suffers_alike() -> None:
    walls = {"model": MODEL, "reference": REFERENCE, "baseline": MODEL}
    ratios = {"reference": -0.6, "baseline": 0.001}
    launches = [replace(launched(walls, ratios), yardstick=1.4, disturbed=True) for _ in range(3)]
    measured = build_metrics(measurement(*launches), 1)["cpu"].baseline
    assert measured is not None
    assert measured.disturbance is None
    assert measured.ratio.high < 1.03


def test_undisturbed_launches_are_compared(beside_reference: Measurement) -> None:
    quick = {name: [time / 2 for time in times] for name, times in {"model": MODEL, "reference": REFERENCE}.items()}
    noisy = replace(launched(quick, {"reference": 1.0}), disturbed=True)
    metrics = build_metrics(measurement(noisy, *beside_reference.launches), 1)
    known = build_metrics(beside_reference, 1)
    assert metrics["cpu"] == known["cpu"]
    assert metrics["speedup"] == known["speedup"]
    assert metrics["p50"].value < known["p50"].value


def test_methods_are_named() -> None:
    wall = {"model": MODEL, "baseline": MODEL}
    for method, name_of_method in (
        ("process", "paired CPU time of the process"),
        ("wall", "paired wall time"),
    ):
        measured = measurement(*(launched(wall, {"baseline": 0.0}, method) for _ in range(3)))  # type: ignore[arg-type]
        comparison = build_metrics(measured, 1)["p50"].baseline
        assert comparison is not None
        assert comparison.method == f"{name_of_method}, 3 launches"


def test_what_is_left_on_disk(tmp_path: Path, beside_reference: Measurement) -> None:
    write(tmp_path, beside_reference, {name: case_of(Path(name)) for name in ("model", "reference")})
    document = json.loads((tmp_path / "latency.json").read_text())
    assert document["format"] == 1
    assert document["method"] == "thread"
    assert document["seconds"] == 6.5
    assert document["pressure"] == {"cpu": 0.25, "load": 3.0}
    assert document["target"] == {"name": "cpu", "session": {"intra_op_num_threads": 1}}
    assert document["inputs"]["model"] == {"x": {"shape": [4, 32], "type": "float32"}}
    assert [launch["log_ratios"]["reference"] for launch in document["launches"]] == list(RATIOS)
    assert document["launches"][0]["pairs"] == {"reference": [-0.6]}
    with zipfile.ZipFile(tmp_path / "samples.npz") as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_DEFLATED}
    with np.load(tmp_path / "samples.npz") as samples:
        assert samples["alone.wall"].tolist() == samples["model.wall"].tolist() == MODEL * 3
        assert samples["reference.launch"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
        assert set(samples.files) == {
            f"{name}.{kind}" for name in ("alone", "model", "reference") for kind in ("wall", "cpu", "launch")
        }


def test_times_on_a_stream_are_left_and_told(tmp_path: Path) -> None:
    times = StreamTimes(np.array([0.004, 0.005, 0.006]), np.array([0.001, 0.002, 0.003]))
    measured = measurement(*(replace(launched({"model": MODEL}, {}), streamed={"model": times}) for _ in range(2)))
    write(tmp_path, measured, {"model": case_of(Path("model"))})
    with np.load(tmp_path / "samples.npz") as samples:
        assert samples["model.stream.device"].tolist() == [0.004, 0.005, 0.006] * 2
        assert samples["model.stream.host"].tolist() == [0.001, 0.002, 0.003] * 2
        assert samples["model.stream.launch"].tolist() == [0, 0, 0, 1, 1, 1]
    assert summarize(measured)[0].endswith("; on the device's stream 5 ms, submitted in 2 ms of CPU time")


def test_lines_for_the_log(beside_reference: Measurement) -> None:
    assert summarize(beside_reference) == [
        "paired on-CPU time: 0.54x of the reference's (95 % interval 0.52x to 0.56x, 3 launches)",
        "3 launches in 6.5 s; threads waited for a core 10 % of the time; pressure on the CPUs 25 %",
    ]
    launches = [replace(launch, waiting=None) for launch in beside_reference.launches]
    away = replace(beside_reference, launches=launches, pressure=replace(beside_reference.pressure, cpu=None))
    assert summarize(away)[1] == "3 launches in 6.5 s"  # where no system counts it
