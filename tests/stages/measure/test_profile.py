"""Profiles of a model with a planted detour; no figure in seconds is asserted, only whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.core.targets import Target
from tests.diagnosis.planted import detour
from tests.stages.models import CONSTANT, parse
from tests.stages.support import StageRun, artifact, run_stage

ONE = Target("one", session={"intra_op_num_threads": 1})
QUICK = {"launches": 2, "runs": 10, "warmup": 0.0}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> StageRun:
    folder = tmp_path_factory.mktemp("profile")
    plain, slow = (artifact(folder, model) for model in detour())
    return run_stage("measure/profile", folder, QUICK, inputs={"model": slow, "reference": plain}, target=ONE)


def test_every_node_is_there(profiled: StageRun) -> None:
    models = json.loads((profiled.output / "profile.json").read_text())["models"]
    names = [node["name"] for node in models["model"]["nodes"]]
    assert names == ["first", "bend", *(f"detour_{number}" for number in range(6)), "second", "turn"]
    assert models["model"]["providers"].keys() == {"CPUExecutionProvider"}
    assert profiled.value("nodes") == 10
    assert profiled.value("total") == pytest.approx(models["model"]["total"], rel=0.5)
    assert len(models["reference"]["nodes"]) == 4


def test_the_detour_is_one_place_that_explains_the_difference(profiled: StageRun) -> None:
    slower = json.loads((profiled.output / "profile.json").read_text())["slower"]
    assert slower["new"] == [f"detour_{number}" for number in range(6)]
    assert slower["gone"] == []
    first = slower["places"][0]
    assert first["nodes"] == slower["new"]
    assert first["reference_count"] == 0
    assert first["share"] > 0.5
    for kind in ("places", "operators"):
        assert sum(place["share"] for place in slower[kind]) == pytest.approx(1)
    assert slower["operators"][0]["name"] == "MatMul"


def test_what_was_timed_is_no_exact_figure(profiled: StageRun) -> None:
    """Or the history would call every one of them a change, and a gate hold it against another machine's."""
    noise = {name: metric.noise for name, metric in profiled.metrics.items()}
    assert noise == {"total": "timing", "outside": "timing", "nodes": "none", "busiest": "timing"}


def test_the_total_is_compared_launch_by_launch(profiled: StageRun) -> None:
    compared = profiled.metrics["total"].reference
    assert compared is not None
    assert compared.count == 2
    assert compared.method == "time of undisturbed nodes, 2 launches"
    assert compared.ratio.value > 1


def test_the_table_for_people(profiled: StageRun) -> None:
    lines = (profiled.output / "profile.md").read_text().splitlines()
    assert lines[0] == "| node | operator | provider | time | share |"
    assert "| place | time | reference | difference | share |" in lines


def test_a_model_alone_leaves_no_profile_of_onnx_runtime_behind(tmp_path: Path) -> None:
    plain, _ = detour(1)
    alone = run_stage("measure/profile", tmp_path, QUICK, inputs={"model": artifact(tmp_path, plain)}, target=ONE)
    assert sorted(path.name for path in alone.output.iterdir()) == ["profile.json", "profile.md"]
    assert not list((alone.output.parent / "work").iterdir())
    assert alone.metrics["total"].reference is None


def test_a_model_without_a_node_left(tmp_path: Path) -> None:
    """ONNX Runtime folds what is constant away before it runs anything."""
    inputs = dict.fromkeys(("model", "reference"), artifact(tmp_path, parse(CONSTANT)))
    run = run_stage("measure/profile", tmp_path, QUICK, inputs=inputs, target=ONE)
    assert (run.value("nodes"), run.value("busiest")) == (0, 0.0)
