"""A measurement of the user's own, with the accepted model beside the new one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import orun
from orun.cli.main import main
from orun.core.run_record import Verdict
from orun.gates import baselines
from tests.facts import why

STAGES = """
import numpy as np
import onnx
from onnx import numpy_helper

import orun


@orun.stage(inputs={"model": "onnx"}, output="metrics", metrics=["right"], baseline=True)
def right(context):
    scores = answers(context.model())
    both = "baseline" in context.inputs
    compared = orun.compare(scores, answers(context.model("baseline")), context.seed) if both else None
    interval = orun.Estimate(scores.mean(), scores.mean() - 0.1, min(scores.mean() + 0.1, 1.0))
    return {"right": orun.Metric(scores.mean(), "ratio", "higher", "sample", interval, baseline=compared)}


def answers(path):
    (share,) = numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    return (np.arange(200) < 200 * share).astype(float)
"""
PIPELINE = """
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  right: {uses: "./own.py:right", needs: import, gate: {right: {max_regression: 5%}}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baselines, "author_name", lambda _: "Ada")
    (tmp_path / "own.py").write_text(STAGES)
    (tmp_path / "release.yaml").write_text(PIPELINE)
    return tmp_path


WITH_WORDS = """
import numpy as np
import onnx
from onnx import numpy_helper

import orun


@orun.stage(inputs={}, output="dataset")
def examples(context):
    (context.output / "rows.txt").write_text((context.root / "rows.txt").read_text())


@orun.stage(inputs={}, output="files")
def words(context):
    (context.output / "words.txt").write_text((context.root / "words.txt").read_text())


@orun.stage(inputs={"examples": "dataset", "words": "files", "model": "onnx"}, output="metrics", metrics=["right"])
def right(context, *, beams: int = 4):
    (share,) = numpy_helper.to_array(onnx.load(context.model()).graph.initializer[0])
    known = float((context.inputs["words"] / "words.txt").read_text())
    return {"right": orun.Metric(float(share) * known, "ratio", "higher")}
"""
BESIDE = """
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  examples: {uses: "./own.py:examples"}
  words: {uses: "./own.py:words"}
  right:
    uses: "./own.py:right"
    needs: {model: import, words: words, examples: examples}
    gate: {right: {max_regression: 5%}}
"""


def verdict_of(project: Path, share: float) -> Verdict:
    """On a model that answers so many examples right."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    weights = [numpy_helper.from_array(np.array([share], np.float32), "share")]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "share"], ["y"])], "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, project / "model.onnx")
    (verdict,) = orun.run("release.yaml").verdicts
    return verdict


def test_the_accepted_model_is_an_input_beside_the_new_one(project: Path) -> None:
    assert verdict_of(project, 0.9).outcome == "no baseline"
    assert main(["baseline", "accept", "release.yaml"]) == 0
    assert why(verdict_of(project, 0.9)).endswith("0 % (the accepted baseline is this very model): within 5%")
    worse = verdict_of(project, 0.75)
    assert worse.outcome == "failed"
    assert told(worse)[1] == (
        "the regression of right against the accepted baseline is 16.7 % (95 % interval 11.9 % to 22.9 %; McNemar's "
        "score interval over 200 examples, 0 better and 30 worse): shown to be more than 5%"
        "; Ada accepted that baseline on DAY"
    )


def test_without_it_the_stored_figures_are_what_there_is(project: Path) -> None:
    (project / "own.py").write_text(STAGES.replace(", baseline=True)", ")"))
    verdict_of(project, 0.9)
    assert main(["baseline", "accept", "release.yaml"]) == 0
    worse = verdict_of(project, 0.85)
    assert worse.outcome == "undecided"
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", why(worse)) == (
        "the regression of right against the accepted baseline is 5.56 % (95 % interval -10.2 % to 21.3 %; figures "
        "stored on DAY, not example by example: ./own.py:right measures no second model): the interval holds 5%; "
        "intervals 28 times as narrow would decide it"
    )


def test_a_rule_that_changed_is_judged_as_if_it_had_been_there_when_it_was_measured(project: Path) -> None:
    verdict_of(project, 0.9)
    gates = "any: [{right: {min: 95%}}, {right: {max: 0.9}}], right: {min: 0.85, max_regression: 2%, undecided: fail}"
    (project / "release.yaml").write_text(PIPELINE.replace("right: {max_regression: 5%}", gates))
    again, fresh = orun.run("release.yaml"), orun.run("release.yaml", store=project / "other")
    assert [(one["right"].outcome, one.exit_code) for one in (again, fresh)] == [("cached", 0), ("built", 0)]
    assert again.verdicts == fresh.verdicts
    assert [one.outcome for one in again.verdicts] == ["passed", "failed", "passed", "passed", "no baseline"]


@pytest.fixture
def with_words(project: Path) -> Path:
    """A measurement of a model with its words, on examples, which come first; accepted."""
    (project / "own.py").write_text(WITH_WORDS)
    (project / "release.yaml").write_text(BESIDE)
    (project / "words.txt").write_text("1.0")
    (project / "rows.txt").write_text("some")
    verdict_of(project, 0.5)
    assert main(["baseline", "accept", "release.yaml"]) == 0
    return project


def told(verdict: Verdict) -> tuple[str, str]:
    return verdict.outcome, re.sub(r"\d{4}-\d\d-\d\d", "DAY", why(verdict))


def test_the_model_is_what_is_accepted_and_not_what_it_is_measured_on(with_words: Path) -> None:
    start = "the regression of right against the accepted baseline is"
    assert told(verdict_of(with_words, 0.5)) == (
        "passed",
        f"{start} 0 % (the accepted baseline is this very model): within 5%",
    )
    assert told(verdict_of(with_words, 0.25)) == (
        "failed",
        f"{start} 50 % (figure stored on DAY): more than 5%; Ada accepted that baseline on DAY",
    )


def test_another_input_beside_the_accepted_model_is_no_accepted_release(with_words: Path) -> None:
    (with_words / "words.txt").write_text("0.5")
    assert told(verdict_of(with_words, 0.5)) == (
        "failed",
        (
            "the regression of right against the accepted baseline is 50 % (figure stored on DAY): more than 5%; "
            "Ada accepted that baseline on DAY"
        ),
    )


def test_figures_on_other_examples_are_not_held_against_one_another(with_words: Path) -> None:
    """The accepted model would be the same one: of another nothing is known."""
    (with_words / "rows.txt").write_text("others")
    assert verdict_of(with_words, 0.5).outcome == "passed"
    found = verdict_of(with_words, 0.25)
    assert found.outcome == "undecided"
    assert why(found) == (
        "./own.py:right measures no second model, and the accepted figures were measured otherwise: input examples "
        "changed (from examples); `orun baseline accept release.yaml`"
    )
    (with_words / "rows.txt").write_text("some")
    text = (with_words / "release.yaml").read_text()
    (with_words / "release.yaml").write_text(text.replace("    gate:", "    with: {beams: 1}\n    gate:"))
    assert "were measured otherwise: parameter beams: 4 -> 1; `" in why(verdict_of(with_words, 0.25))


def test_a_figure_on_a_sample_that_was_stored_without_an_interval_tells_nothing(project: Path) -> None:
    text = STAGES.replace(", baseline=True)", ")").replace('"sample", interval,', '"sample",')
    (project / "own.py").write_text(text)
    verdict_of(project, 0.9)
    assert main(["baseline", "accept", "release.yaml"]) == 0
    found = verdict_of(project, 0.5)
    assert found.outcome == "undecided"
    assert why(found) == (
        "./own.py:right measures no second model, and figures on a sample tell nothing without their intervals; "
        "`orun baseline accept release.yaml`"
    )
