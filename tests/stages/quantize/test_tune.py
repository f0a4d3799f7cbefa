"""`quantize/tune`: within the budget, never worse than the best single recipe, and resumable."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.core.targets import Provider, Target
from orun.environment import processor
from orun.errors import PipelineError, StageFailed
from orun.pipeline import load
from orun.stages._graph.io import load_graph
from orun.stages._graph.sessions import open_model
from orun.stages.quantize._tuning.build import Workshop
from orun.stages.quantize._tuning.harm import find_candidates, group_neighbours, measure_error, rank, run_model
from orun.stages.quantize._tuning.judge import Goal, Judge
from orun.stages.quantize._tuning.settings import list_places, list_recipes, make_settings
from orun.stages.quantize._tuning.trial_log import KEPT_SECONDS, Trial, TrialLog
from tests.stages.support import StageRun, artifact, make_context, run_stage

RECIPES = 5 + processor.saturates()  # without data to calibrate with
DATA = """
import numpy as np
from orun import Dataset


def examples():
    random = np.random.default_rng(3)
    return Dataset(inputs={"x": random.standard_normal((24, 64)).astype(np.float32)})


def few():
    return examples().spread(3)
"""
LAYERS = """
<ir_version: 9, opset_import: ["" : 20]>
layers (float[n, 64] x) => (float[n, 64] y)
{
  [one] a = MatMul (x, w1)
  b = Relu (a)
  [two] c = MatMul (b, w2)
  d = Relu (c)
  [three] e = MatMul (d, w3)
  f = Relu (e)
  [four] y = MatMul (f, w4)
}
"""


def layers() -> onnx.ModelProto:
    """Four layers; a few columns of the third are too large to share a scale with the rest."""
    model = onnx.parser.parse_model(LAYERS)
    random = np.random.default_rng(0)
    weights = {f"w{number}": random.standard_normal((64, 64)).astype(np.float32) / 8 for number in range(1, 5)}
    weights["w3"][:, ::16] *= 400
    weights["w4"][::16] /= 400
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return TrialLog("any").path.parent


def tune(folder: Path, key: str = "", model: Path | None = None, **params: Any) -> StageRun:
    (folder / "data.py").write_text(DATA)
    options = {"dataset": "data.py:examples", "metric": "sqnr", "objective": "size", "fuse": False, **params}
    return run_stage(
        "quantize/tune", folder, options, inputs={"model": model or artifact(folder, layers())}, root=folder, key=key
    )


def property_of(run: StageRun) -> dict[str, Any]:
    properties = {entry.key: entry.value for entry in load_graph(run.model).metadata_props}
    document: dict[str, Any] = json.loads(properties["orun.tune"])
    return document


def test_a_loose_budget_takes_the_smallest_recipe(tmp_path: Path) -> None:
    run = tune(tmp_path, at_least=1.0, trials=1)
    chosen = property_of(run)["chosen"]
    assert (chosen["method"], dict(chosen["options"])["bits"]) == ("weights", 4)
    assert run.value("size") < 0.3 * 4 * 64 * 64 * 4


@pytest.mark.slow
def test_fewer_examples_than_harm_is_looked_for_on(tmp_path: Path) -> None:
    result = tune(tmp_path, dataset="data.py:few", at_least=0.0, trials=1)
    assert (result.value("tried"), result.value("refused")) == (RECIPES, 0)  # the recipes, as no budget is missed


def test_a_model_that_is_quantized_already_stays_as_it_is(tmp_path: Path) -> None:
    """It has no layer that a candidate could leave in float."""
    quantized = run_stage("quantize/dynamic", tmp_path, inputs={"model": artifact(tmp_path, layers())})
    assert property_of(tune(tmp_path, model=quantized.output, at_least=1.0))["chosen"]["method"] == "float"


def test_a_tight_budget_leaves_out_what_harms_most(tmp_path: Path, cache: Path) -> None:
    run = tune(tmp_path, at_least=35.0, calibration="data.py:examples")
    document = property_of(run)
    assert document["chosen"]["accuracy"] == run.value("sqnr") >= 35.0
    assert "  four: " in run.log.partition("most harmful when quantized:\n")[2].splitlines()[0]
    assert document["chosen"]["method"] != "float"
    assert document["chosen"]["kept"] == ["four"]
    costs = [item["size"] for item in document["front"]]
    accuracies = [item["accuracy"] for item in document["front"]]
    assert costs == sorted(costs)
    assert accuracies == sorted(accuracies)
    assert not list(cache.glob("*.jsonl"))  # the search is over


@pytest.mark.slow
def test_latency_is_measured_side_by_side(tmp_path: Path) -> None:
    run = tune(tmp_path, at_least=10.0, objective="latency", trials=3, time=5.0)
    assert run.metrics["speedup"].noise == "timing"
    assert run.value("speedup") > 0
    assert run.value("tried") == RECIPES  # all single recipes, whatever `trials` says


@pytest.mark.slow
def test_the_finalist_that_is_fastest_undisturbed_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of the search are of different minutes and do not count."""
    monkeypatch.setattr(Judge, "time", lambda *_: 0.5)
    monkeypatch.setattr(Judge, "time_finalists", lambda *_: [0.9, 0.7, 0.8, 1.0])
    run = tune(tmp_path, at_least=-100.0, objective="latency", trials=3)
    timed = [line.split(" takes ") for line in run.log.splitlines() if line.startswith("undisturbed: ")]
    assert [ratio.partition(" ")[0] for _, ratio in timed] == ["0.900", "0.700", "0.800", "1.000"]
    assert len({title for title, _ in timed}) == 4
    assert f"chosen: {timed[1][0].removeprefix('undisturbed: ')}" in run.log
    assert run.value("speedup") == 1 / 0.7


def test_a_goal_that_nothing_reaches(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        tune(tmp_path, metric="cosine.min", at_least=2.0, trials=1)
    assert caught.value.problem == f"none of {RECIPES} candidates reaches the goal"
    assert caught.value.why.splitlines()[0] == "float, on cpu: cosine.min 1"
    assert caught.value.hint == "lower the goal, or allow more `time` and `trials`"


@pytest.mark.parametrize(("written", "value"), [("99%", 0.99), ("0.99", 0.99), ("35", 35.0), ("-1e-3", -0.001)])
def test_what_is_good_enough_is_written_as_metrics_are(tmp_path: Path, written: str, value: float) -> None:
    model = artifact(tmp_path, layers()) / "model.onnx"
    (tmp_path / "data.py").write_text(DATA)
    file = tmp_path / "tuned.yaml"
    file.write_text(
        "stages:\n"
        f"  given: {{uses: convert/onnx, with: {{path: {model}}}}}\n"
        "  tune:\n"
        "    uses: quantize/tune\n"
        "    needs: given\n"
        f"    with: {{dataset: data.py:examples, metric: sqnr, at_least: {written}}}\n"
    )
    assert load(file).stage("tune").params["at_least"] == value


def test_the_metric_of_the_goal_goes_by_its_own_name(tmp_path: Path) -> None:
    run = tune(tmp_path, metric="relative", at_most=1.0, trials=1)
    assert list(run.metrics) == ["size", "nodes", "relative", "tried", "refused", "front"]
    assert (run.metrics["relative"].unit, run.metrics["relative"].better) == ("ratio", "lower")
    assert property_of(run)["chosen"]["accuracy"] == run.value("relative")


def test_a_gate_names_the_metric_of_the_goal(tmp_path: Path) -> None:
    model = artifact(tmp_path, layers()) / "model.onnx"
    (tmp_path / "data.py").write_text(DATA)
    file = tmp_path / "tuned.yaml"
    text = (
        "stages:\n"
        f"  given: {{uses: convert/onnx, with: {{path: {model}}}}}\n"
        "  tune:\n"
        "    uses: quantize/tune\n"
        "    needs: given\n"
        "    with: {dataset: data.py:examples, metric: agreement, at_least: 90%}\n"
        "    gate: {GOAL: {min: 90%}, speedup: {min: 1.1x}}\n"
    )
    file.write_text(text.replace("GOAL", "agreement"))
    load(file)
    file.write_text(text.replace("GOAL", "accuracy"))
    with pytest.raises(PipelineError) as caught:
        load(file)
    assert [problem.message for problem in caught.value.problems] == ["quantize/tune does not measure 'accuracy'"]


def test_the_harmful_layer_comes_first(tmp_path: Path) -> None:
    model = artifact(tmp_path, layers()) / "model.onnx"
    feeds = [{"x": np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)}]

    def only(kept: Sequence[str]) -> Path | None:
        changed = layers()
        for node in changed.graph.node:
            if node.op_type == "MatMul" and node.name not in kept:
                weight = next(item for item in changed.graph.initializer if item.name == node.input[1])
                value = numpy_helper.to_array(weight)
                scale = np.abs(value).max() / 127
                weight.CopyFrom(numpy_helper.from_array((np.round(value / scale) * scale), weight.name))
        return artifact(tmp_path, changed) / "model.onnx"

    assert [name for name, _ in find_candidates(layers())] == ["one", "two", "three", "four"]
    ranked = rank(model, ["y"], feeds, only, 60.0)
    assert {ranked[0].nodes, ranked[1].nodes} == {("three",), ("four",)}
    assert ranked[0].harm > 100 * ranked[2].harm
    right = [run_model(open_model(model, ["y"]), feed) for feed in feeds]
    assert measure_error(right, right) == 0.0


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.chdir(tmp_path)
    inputs = {"model": artifact(tmp_path, layers())}
    return Workshop(make_context(tmp_path, inputs=inputs, output=tmp_path / "output"), None)


def test_counts_of_groups_that_keep_the_same_nodes_have_folders_of_their_own(workshop: Workshop) -> None:
    settings = make_settings("dynamic")
    folders = [workshop.make(replace(settings, kept=kept), ["one"]) for kept in (1, 2)]
    assert folders[0] != folders[1]
    workshop.drop(replace(settings, kept=1))
    assert (folders[1] / "model.onnx").is_file()


def test_notes_on_candidates_are_not_notes_on_the_result(workshop: Workshop) -> None:
    """The ranges of this candidate are made up, of which `quantize/static` makes a note."""
    workshop.make(make_settings("static"))
    assert workshop.context.notes == []


def test_many_nodes_are_put_together_with_their_neighbours() -> None:
    groups = group_neighbours([(f"n{number}", 1) for number in range(100)])
    assert len(groups) == 34
    assert groups[0] == [("n0", 1), ("n1", 1), ("n2", 1)]


def test_an_interrupted_search_goes_on(cache: Path) -> None:
    first = TrialLog("abc")
    trial = Trial(make_settings("dynamic", per_channel=True, op_types=["MatMul"]), 0.99, 0.5, 10, kept=("n1",))
    first.add(trial)
    refused = Trial(make_settings("weights", bits=4), math.inf, 1.0, 0, "no MatMul")
    first.add(refused)
    with (cache / "abc.jsonl").open("a") as file:
        file.write('{"settings": {"meth')  # the process was killed here
    assert list(TrialLog("abc").trials.values()) == [trial, refused]
    first.remove()
    assert TrialLog("abc").trials == {}


def test_searches_that_nobody_goes_on_with_are_forgotten(cache: Path) -> None:
    ended, recent, left = (TrialLog(name) for name in ("ended", "recent", "left"))
    for log in (ended, recent, left):
        log.add(Trial(make_settings("dynamic"), 0.99, 0.5, 10))
    now = time.time()
    os.utime(left.path, (now - KEPT_SECONDS - 60, now - KEPT_SECONDS - 60))
    os.utime(recent.path, (now - KEPT_SECONDS + 3600, now - KEPT_SECONDS + 3600))
    ended.remove()
    assert [path.name for path in cache.iterdir()] == ["recent.jsonl"]


class Trials:
    """Count the models that are judged on a few examples, and interrupt the search after some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.most = 0, math.inf
        judged = Judge.measure_accuracy

        def measure_accuracy(judge: Judge, model: Path, target: Target, *, everything: bool = False) -> float:
            if self.count == self.most:
                raise KeyboardInterrupt
            self.count += not everything
            return judged(judge, model, target, everything=everything)

        monkeypatch.setattr(Judge, "measure_accuracy", measure_accuracy)

    def of(self, folder: Path, most: float = math.inf) -> int:
        """Return how many models a further search judges."""
        self.count, self.most = 0, most
        with contextlib.suppress(KeyboardInterrupt):
            tune(folder, key="one", at_least=1.0, trials=1, dataset="files.py:examples")
        return self.count


@pytest.mark.slow
def test_a_search_that_was_broken_off_goes_on_unless_its_examples_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function reads an undeclared file, which is not in the key before the stage has ended."""
    seed, trials = tmp_path / "seed.txt", Trials(monkeypatch)
    (tmp_path / "files.py").write_text(DATA.replace("rng(3)", f"rng(int(np.loadtxt({str(seed)!r})))"))
    seed.write_text("3")
    assert trials.of(tmp_path, most=2) == 2
    rest = trials.of(tmp_path)
    assert rest > 0
    assert trials.of(tmp_path, most=2) == 2
    seed.write_text("4")
    assert trials.of(tmp_path) == 2 + rest


def test_where_a_model_can_run() -> None:
    hint = {"load_config": '{"CPU": {"INFERENCE_NUM_THREADS": "1"}}'}
    cpu = Provider("CPUExecutionProvider")
    target = Target("ov", (Provider("OpenVINOExecutionProvider", hint), cpu), {"intra_op_num_threads": 1})
    variants = list_places(target)
    assert list(variants) == ["openvino f32", "openvino bf16", "cpu"]
    assert variants["openvino bf16"].providers[0].options["load_config"] == (
        '{"CPU": {"INFERENCE_NUM_THREADS": "1", "INFERENCE_PRECISION_HINT": "bf16"}}'
    )
    assert variants["cpu"].providers == (cpu,)
    assert list(list_places(Target("cpu"))) == ["cpu"]
    chosen = Provider("OpenVINOExecutionProvider", {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'})
    assert list(list_places(Target("ov", (chosen,)))) == ["openvino"]


def test_single_recipes() -> None:
    """OpenVINO gets fused operators and integers too, in each precision of the float part."""
    candidates = list_recipes(
        ["openvino f32", "openvino bf16", "cpu"], {"MatMul", "Add"}, calibrated=True, fusable=True
    )
    static = 'static (op_types=["MatMul"], per_channel=true)'
    assert [item.title for item in candidates] == [
        "float, on openvino f32",
        "float, on openvino bf16",
        "float, on cpu",
        "dynamic (per_channel=false), on cpu",
        "dynamic (per_channel=true), on cpu",
        "weights (accuracy_level=4, bits=8, block_size=128), on cpu",
        "weights (accuracy_level=4, bits=4, block_size=32), on cpu",
        "float, fused, on openvino f32",
        "float, fused, on openvino bf16",
        "float, fused, on cpu",
        "dynamic (per_channel=true), fused, on cpu",
        f"{static}, on openvino f32",
        f"{static}, on openvino bf16",
        f"{static}, on cpu",
        f"{static}, fused, on openvino f32",
        f"{static}, fused, on openvino bf16",
        f"{static}, fused, on cpu",
    ]
    plain = list_recipes(["openvino bf16"], {"MatMul"}, calibrated=False, fusable=False)
    assert [item.title for item in plain] == ["float, on openvino bf16"]
    without_vnni = list_recipes(["cuda", "cpu"], {"MatMul"}, calibrated=True, fusable=False, saturates=True)
    assert [item.title for item in without_vnni if "reduce_range" in item.title] == [
        "dynamic (per_channel=true, reduce_range=true), on cpu",
        'static (op_types=["MatMul"], per_channel=true, reduce_range=true), on cpu',
    ]
    on_gpu = list_recipes(["cuda"], {"MatMul"}, calibrated=True, fusable=True)
    assert [item.title for item in on_gpu] == ["float, on cuda"]


@pytest.mark.parametrize(
    ("goal", "value", "short"),
    [
        (Goal("cosine.mean", 0.99, None), 0.98, 0.01),
        (Goal("cosine.mean", 0.99, None), 0.995, 0.0),
        (Goal("max_abs", None, 0.1), 0.3, 0.2),
        (Goal("max_abs", None, 0.1), math.nan, math.inf),
    ],
)
def test_goals(goal: Goal, value: float, short: float) -> None:
    assert goal.measure_gap(value) == pytest.approx(short)
