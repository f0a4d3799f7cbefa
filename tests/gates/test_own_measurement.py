"""A measurement of the user's own, with the accepted model beside the new one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import onnx
import pytest

import orun
from orun.cli.main import main
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.gates import baselines
from tests.facts import explain_verdict

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
REGRESSION = "the regression of right against the accepted baseline is"


def make_project(folder: Path, code: str, pipeline: str) -> None:
    (folder / "own.py").write_text(code)
    (folder / "release.yaml").write_text(pipeline)


def save_model(share: float) -> None:
    """Save a model that answers so many examples right, in the working folder."""
    weight = f"<float[1] share = {{{share}}}>"
    text = f'<ir_version: 9, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) {weight} {{ y = Mul (x, share) }}'
    onnx.save(onnx.parser.parse_model(text), "model.onnx")


def judged(share: float, scores: str = "1.0", rows: str = "some", beams: int = 4) -> tuple[str, str]:
    """Outcome of the gate for a model, and why, without the day."""
    save_model(share)
    Path("words.txt").write_text(scores)
    Path("rows.txt").write_text(rows)
    values = {} if beams == 4 else {"stages.right.with.beams": beams}
    (verdict,) = orun.run("release.yaml", set=values).verdicts
    return verdict.outcome, re.sub(r"\d{4}-\d\d-\d\d", "DAY", explain_verdict(verdict))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A measurement with the accepted model beside the new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baselines, "find_author", lambda _: "Ada")
    make_project(tmp_path, STAGES, PIPELINE)
    return tmp_path


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measurement of a model with its words, on examples, which come first; accepted with half of them right."""
    folder = tmp_path_factory.mktemp("accepted")
    make_project(folder, WITH_WORDS, BESIDE)
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "find_author", lambda _: "Ada")
        assert judged(0.5)[0] == "no baseline"
        assert main(["baseline", "accept", "release.yaml"]) == 0
    return folder


@pytest.fixture
def with_words(accepted: Path) -> Iterator[None]:
    """The working folder is that of the accepted measurement."""
    with chdir(accepted):
        yield


@pytest.mark.usefixtures("project")
def test_the_accepted_model_is_an_input_beside_the_new_one() -> None:
    assert judged(0.9)[0] == "no baseline"
    assert main(["baseline", "accept", "release.yaml"]) == 0
    assert judged(0.75) == (
        "failed",
        (
            f"{REGRESSION} 16.7 % (95 % interval 11.9 % to 22.9 %; McNemar's score interval over 200 examples, "
            "0 better and 30 worse): shown to be more than 5%; Ada accepted that baseline on DAY"
        ),
    )


def drop_store(verdict: Verdict) -> Verdict:
    """The verdict without the store that the command to accept its run names."""
    arguments = {name: value for name, value in verdict.finding.arguments.items() if name != "store"}
    return replace(verdict, finding=replace(verdict.finding, arguments=arguments))


def test_a_rule_that_changed_is_judged_as_if_it_had_been_there_when_it_was_measured(project: Path) -> None:
    judged(0.9)
    gates = "any: [{right: {min: 95%}}, {right: {max: 0.9}}], right: {min: 0.85, max_regression: 2%, undecided: fail}"
    (project / "release.yaml").write_text(PIPELINE.replace("right: {max_regression: 5%}", gates))
    again, fresh = orun.run("release.yaml"), orun.run("release.yaml", store=project / "other")
    assert [(run["right"].outcome, run.exit_code) for run in (again, fresh)] == [("cached", 0), ("built", 0)]
    assert [*map(drop_store, again.verdicts)] == [*map(drop_store, fresh.verdicts)]
    assert [verdict.outcome for verdict in again.verdicts] == ["passed", "failed", "passed", "passed", "no baseline"]


@pytest.mark.usefixtures("with_words")
def test_the_model_is_what_is_accepted_and_not_what_it_is_measured_on() -> None:
    assert judged(0.5) == ("passed", f"{REGRESSION} 0 % (the accepted baseline is this very model): within 5%")
    assert judged(0.25) == (
        "failed",
        f"{REGRESSION} 50 % (figure stored on DAY): more than 5%; Ada accepted that baseline on DAY",
    )


@pytest.mark.usefixtures("with_words")
def test_another_input_beside_the_accepted_model_is_no_accepted_release() -> None:
    assert judged(0.5, scores="0.5") == (
        "failed",
        f"{REGRESSION} 50 % (figure stored on DAY): more than 5%; Ada accepted that baseline on DAY",
    )


@pytest.mark.usefixtures("with_words")
def test_figures_on_other_examples_are_not_held_against_one_another() -> None:
    """The accepted model would be the same one: of another nothing is known."""
    assert judged(0.5, rows="others")[0] == "passed"
    start = "./own.py:right measures no second model, and the accepted figures were measured otherwise:"
    end = "; `orun baseline accept release.yaml`"
    assert judged(0.25, rows="others") == ("undecided", f"{start} input examples changed (from examples){end}")
    options = " --set stages.right.with.beams=1`"
    assert judged(0.25, beams=1) == (
        "undecided",
        f"{start} parameter beams: 4 -> 1{end.removesuffix('`')}{options}",
    )
