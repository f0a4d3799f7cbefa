"""`measure/latency` on tiny real models: what it yields, leaves and refuses. No time is asserted."""

from __future__ import annotations

import json
import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from orun.core.targets import Provider, Target
from orun.errors import StageFailed
from orun.measure.latency.quantiles import find_ranks
from orun.stages.contract import MODEL, Context
from orun.stages.measure.latency import METRICS, SPEC, Params, build_benchmark_cases, build_budget, metrics
from orun.stages.params import Duration, Ratio
from tests.measure.support import ONE_THREAD, save_model
from tests.stages.models import CONSTANT, parse
from tests.stages.support import StageRun, artifact, run_stage

QUICK = {"time": 0.0, "warmup": 0.0, "samples": 6, "max_launches": 3}
TWO_THREADS = Target("two", session={"intra_op_num_threads": 2})
DATA = """
import numpy as np
import orun

def rows():
    return orun.Dataset({"x": np.ones((5, 32), np.float32)})
"""


def saved(folder: Path, name: str, layers: int = 2) -> Path:
    path = folder / name
    path.mkdir()
    save_model(path / MODEL, layers)
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> StageRun:
    """A real measurement against a reference, and against the model itself as another one and as the baseline."""
    folder = tmp_path_factory.mktemp("latency")
    model = saved(folder, "model")
    inputs = {"model": model, "reference": saved(folder, "reference", layers=6)}
    inputs |= dict.fromkeys(("reference.same", "baseline"), model)
    return run_stage("measure/latency", folder, QUICK, inputs=inputs, target=ONE_THREAD)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> StageRun:
    """A real measurement of a model alone on three examples of a dataset, which are bound to the device."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "data.py").write_text(DATA)
    params = {**QUICK, "inputs": "data.py:rows", "batch": 3, "io_binding": True}
    return run_stage("measure/latency", folder, params, inputs={"model": saved(folder, "model")})


def context(folder: Path, *ports: str) -> Context:
    """The context of a stage with one model at these ports, whose references have a target of their own."""
    inputs = dict.fromkeys(ports, saved(folder, "model"))
    return Context(
        "latency", inputs, folder, folder, ONE_THREAD, 0, None, None, lambda: logging.getLogger("test"),
        lambda *_: None, extra_targets={"reference_target": TWO_THREADS},
    )  # fmt: skip


def test_references_may_have_a_target_of_their_own(tmp_path: Path) -> None:
    """The accepted model runs where the model does."""
    stage = context(tmp_path, "model", "reference", "reference.same", "baseline")
    targets = {name: case.target for name, case in build_benchmark_cases(stage, Params()).items()}
    assert targets == {
        "model": ONE_THREAD, "reference": TWO_THREADS, "reference.same": TWO_THREADS, "baseline": ONE_THREAD,
    }  # fmt: skip
    alike = build_benchmark_cases(replace(stage, extra_targets={}), Params())
    assert all(case.target == ONE_THREAD for case in alike.values())


@pytest.mark.parametrize("bound", [False, True])
def test_values_are_bound_where_that_is_asked_for(tmp_path: Path, *, bound: bool) -> None:
    cases = build_benchmark_cases(context(tmp_path, "model", "reference"), Params(io_binding=bound))
    assert [case.bound for case in cases.values()] == [bound, bound]


@pytest.mark.parametrize(("metric", "share"), [("p90", 0.9), ("p95", 0.95), ("p99", 0.99)])
def test_the_samples_of_a_quantile_bound_it_on_both_sides(metric: str, share: float) -> None:
    """LoadGen's formula for a margin of half of the tail; the order statistics that bound it are within that margin."""
    count = SPEC.samples[metric]
    margin = (1 - share) / 2
    assert count == math.ceil(NormalDist().inv_cdf(0.975) ** 2 * share * (1 - share) / margin**2)
    low, high = find_ranks(count, share)
    assert share - 1.2 * margin <= low / count
    assert high / count <= share + 1.2 * margin
    assert high <= count


@pytest.mark.parametrize(
    ("params", "time", "alone"),
    [
        (Params(), 20, 4),
        (Params(resolution=Ratio(0.02)), 50, 10),
        (Params(resolution=Ratio(0.1)), 20, 4),
        (Params(time=Duration(30)), 30, 6),
        (Params(samples=1522), 20, 20),
    ],
)
def test_how_long_it_may_take(params: Params, time: float, alone: float) -> None:
    budget = build_budget(params)
    assert (budget.time, budget.alone) == pytest.approx((time, alone))
    assert budget.enough == (8 if params.time is None else 0)  # who says how long it may take is not kept longer


def test_its_metrics_are_those_that_it_declares(measured: StageRun) -> None:
    assert (*measured.metrics, "device", "host") == tuple(SPEC.metrics or ())


def test_every_figure_has_an_interval_and_is_compared(measured: StageRun) -> None:
    for metric in measured.metrics.values():
        assert metric.noise == "timing"
        assert metric.interval is not None
        assert metric.interval.low <= metric.value <= metric.interval.high
        assert list(metric.references) == ["same"]
        for comparison in (metric.reference, metric.references["same"], metric.baseline):
            assert comparison is not None
            assert comparison.count == 3
            assert comparison.ratio.low < comparison.ratio.value < comparison.ratio.high


def test_the_artifact_holds_the_launches(measured: StageRun) -> None:
    document = json.loads((measured.output / "latency.json").read_text())
    assert sorted(path.name for path in measured.output.iterdir()) == ["latency.json", "samples.npz"]
    assert len(document["launches"]) == 3
    assert set(document["launches"][0]["log_ratios"]) == {"reference", "reference.same", "baseline"}
    assert document["inputs"]["model"] == {"x": {"shape": [1, 32], "type": "float32"}}
    with np.load(measured.output / "samples.npz") as samples:
        assert samples["alone.launch"].tolist() == [0, 1, 2]  # no time for more
        assert len(samples["model.wall"]) == len(samples["model.launch"])
        assert sorted(set(samples["model.launch"])) == [0, 1, 2]


def test_the_log_has_each_comparison_and_what_it_took(measured: StageRun) -> None:
    *comparisons, last = measured.log.splitlines()
    for line, other in zip(comparisons, ("reference", "reference.same", "baseline"), strict=True):
        interval = r"(unknown|\S+x to \S+x)"  # unknown where something else was busy
        assert re.fullmatch(
            rf"paired on-CPU time: \S+x of the {other}'s \(95 % interval {interval}, 3 launches\)", line
        )
    assert last.startswith("3 launches in ")
    assert measured.progress == ((0, 3, "launches"), (1, 3, "launches"), (2, 3, "launches"))


def test_a_model_alone_has_no_speed_up(alone: StageRun) -> None:
    assert (*alone.metrics, "speedup", "device", "host") == tuple(SPEC.metrics or ())
    assert alone.metrics["p50"].reference is None


def test_examples_of_a_dataset_are_fed_and_counted(alone: StageRun) -> None:
    document = json.loads((alone.output / "latency.json").read_text())
    assert document["inputs"] == {"model": {"x": {"shape": [3, 32], "type": "float32"}}}
    assert document["target"] == {"name": "cpu"}
    assert alone.value("throughput") == 3 / alone.value("mean")


@pytest.mark.slow
def test_a_model_without_a_node_left_can_be_timed(tmp_path: Path) -> None:
    """ONNX Runtime folds what is constant away, so that there is nothing to feed and no thread has work."""
    inputs = dict.fromkeys(("model", "reference"), artifact(tmp_path, parse(CONSTANT)))
    assert run_stage("measure/latency", tmp_path, QUICK, inputs=inputs, target=TWO_THREADS).value("speedup") > 0


def test_more_launches_than_there_may_be(tmp_path: Path) -> None:
    inputs = {"model": saved(tmp_path, "model")}
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/latency", tmp_path, {**QUICK, "min_launches": 8}, inputs=inputs, target=ONE_THREAD)
    assert str(caught.value) == (
        "min_launches is 8, and max_launches is 3\n  hint: set `max_launches` to at least `min_launches`"
    )


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        (
            ONE_THREAD,
            (
                "`device_time` needs a device with CUDA\n"
                "  target 'cpu' runs on CPUExecutionProvider\n"
                "  hint: leave it out, or name a target of CUDA or TensorRT"
            ),
        ),
        (
            Target("gpu", (Provider("CUDAExecutionProvider"),)),
            (
                "`device_time` needs inputs and outputs that stay on the device\n"
                "  while they are copied, the device waits for the host\n"
                "  hint: set `io_binding: true`"
            ),
        ),
    ],
)
def test_time_of_a_device_that_cannot_be_told(tmp_path: Path, target: Target, refused: str) -> None:
    inputs = {"model": saved(tmp_path, "model")}
    with pytest.raises(StageFailed) as caught:
        run_stage("measure/latency", tmp_path, {**QUICK, "device_time": True}, inputs=inputs, target=target)
    assert str(caught.value) == refused


def test_time_of_a_device_is_a_metric_where_it_is_asked_for() -> None:
    assert metrics(Params()) == METRICS
    assert metrics(Params(io_binding=True, device_time=True)) == tuple(SPEC.metrics or ())
