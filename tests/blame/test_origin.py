"""A model that was trained anew: the stages after it are not what made it worse, and what changed is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import orun
from orun.blame import accuracy, latency
from orun.blame.blame import BlameRequest, blame
from orun.blame.diagnosis import Diagnosis, Level
from orun.blame.experiment import Experiment
from orun.blame.origin import EarlierModel, find_earlier_model, import_model
from orun.blame.upstream_metrics import list_model_chain
from orun.cli.main import main
from orun.core.metrics import Comparison, Estimate
from orun.core.serialization import replace
from orun.pipeline.model import iter_gates
from orun.store import Store
from tests.facts import describe_reasons
from tests.processors import exact_sums

DATA = """
import numpy as np
from orun import Dataset


def rows() -> Dataset:
    table = np.random.default_rng(1).standard_normal((200, 16)).astype(np.float32)
    weights = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    return Dataset({"x": table}, labels=(table @ weights).argmax(axis=1))
"""
PIPELINE = """
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  int8: {uses: quantize/dynamic, needs: import}
  accuracy:
    uses: measure/accuracy
    needs: {model: int8, reference: import}
    with: {dataset: data.py:rows, metrics: [accuracy, cosine]}
    gate: {accuracy: {max_regression: 5%, min: 0.8}, cosine.min: {min: 0.98}}
"""
PATIENT = 1e6  # seconds: the machine may be slow


class Project:
    def __init__(self, folder: Path) -> None:
        self.file, self.store = folder / "release.yaml", folder / "store"
        self.file.write_text(PIPELINE)
        (folder / "data.py").write_text(DATA)
        self.good = self.run()
        assert main(["baseline", "accept", str(self.file), "--store", str(self.store)]) == 0
        self.bad = self.run(off=0.8)

    def run(self, off: float = 0.0, outlier: float = 1.0) -> orun.RunResult:
        """Train a product that is right but for so much noise in its weights, of which one may be far larger."""
        weights = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
        weights += off * np.random.default_rng(5).standard_normal((16, 4)).astype(np.float32)
        weights[0, 0] *= outlier
        x, y = (helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 16), ("y", 4)))
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")]
        graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weights, "w")])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        onnx.save(model, self.file.with_name("model.onnx"))
        return orun.run(self.file, store=self.store)

    def question(self, result: orun.RunResult, metric: str, rule: str) -> BlameRequest:
        """One gate of a run."""
        pipeline = orun.load(self.file)
        stage = pipeline.stage("accuracy")
        (gate,) = [
            condition for condition in iter_gates(stage.gates) if (condition.metric, condition.rule) == (metric, rule)
        ]
        return BlameRequest(pipeline, stage, gate, result["accuracy"].metrics[metric], result)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("trained")
    return Project(folder)


def past_of(project: Project, question: BlameRequest) -> EarlierModel | None:
    chain = list_model_chain(question.pipeline, question.stage)
    with Store.open(project.store) as store:
        return find_earlier_model(store, question.pipeline, question.result, (question.stage, question.gate), chain)


@exact_sums
def test_against_the_accepted_release(project: Project) -> None:
    diagnosis = blame(project.question(project.bad, "accuracy", "max_regression"), PATIENT, project.store)
    values = {level.stage: level.value for level in diagnosis.levels}
    assert values == {"import before": 1.0, "import": 0.64, "int8": 0.64}
    assert (diagnosis.culprit, round(diagnosis.lost, 6), diagnosis.places) == ("import", 0.36, ())
    assert diagnosis.proof is not None
    assert (diagnosis.proof.how, diagnosis.proof.stage, diagnosis.proof.value) == ("mixed", "int8 before", 1.0)
    assert diagnosis.sentence == (
        f"`import` lost 36 points of accuracy since {project.good.run}: model.onnx changed; "
        "built from its earlier model, accuracy is 100 %"
    )


@exact_sums
def test_of_a_fixed_limit_the_last_run_counts_in_which_it_was_kept(project: Project) -> None:
    diagnosis = blame(project.question(project.bad, "accuracy", "min"), PATIENT, project.store)
    assert [level.passes for level in diagnosis.levels] == [True, False, False]
    assert diagnosis.sentence == (
        f"`import` lost 36 points of accuracy since {project.good.run}: model.onnx changed; "
        "built from its earlier model, accuracy is 100 %; the gate then passes"
    )


@exact_sums
def test_a_stage_that_does_not_bear_the_new_weights_is_to_blame_and_the_weights_are_named(project: Project) -> None:
    assert project.good.exit_code == 0
    question = project.question(project.run(outlier=4000), "cosine.min", "min")
    chain = list_model_chain(question.pipeline, question.stage)
    then = past_of(project, question)
    assert then is not None
    experiment = Experiment(question.pipeline, project.store, PATIENT)
    with Store.open(project.store) as store, import_model(experiment, store, question.stage, then.tree, then.name):
        case = accuracy.Investigation(experiment, question.stage, question.gate, chain, then, question.gate.metric)
        diagnosis = case.compare_earlier(case.find_stage(Diagnosis("", "accuracy", "cosine.min", "", "")))
    assert (diagnosis.culprit, diagnosis.proof) == ("int8", None)
    assert [(level.stage, level.passes) for level in diagnosis.levels] == [("import", True), ("int8", False)]
    start = f"`import` is not the model that it was in {project.bad.run} (model.onnx changed): "
    (note,) = diagnosis.notes
    assert note.startswith(f"{start}built from its earlier model, cosine.min is 0.99")
    assert note.endswith("; the gate then passes")


def test_a_time_is_that_of_the_new_model_where_the_stages_after_it_are_as_they_were(project: Project) -> None:
    """They make of the model of then what they made then: nothing has to be timed for it."""
    question = project.question(project.bad, "accuracy", "min")
    chain = list_model_chain(question.pipeline, question.stage)
    slow = Comparison(0.010, Estimate(1.2, 1.1, 1.3), Estimate(0.002, 0.001, 0.003), "by test")
    diagnosis = Diagnosis("", "accuracy", "p50", "s", "`int8` is slow", (Level("int8", 0.012),), "int8")
    first, last = (project.good[name].tree for name in ("import", "int8"))
    then = past_of(project, question)
    assert then is not None
    assert replace(then, changes=()) == EarlierModel(project.good.run, "import", first, last, (), here=True)
    assert describe_reasons(then.changes) == ("model.onnx changed",)
    experiment = Experiment(question.pipeline, project.store, PATIENT)
    with Store.open(project.store) as store, import_model(experiment, store, question.stage, first, then.name):
        case = latency.Investigation(
            experiment, question.stage, question.gate, chain, "", then, "the accepted baseline", slow
        )
        compared = case.compare_earlier(diagnosis, then)
        other = case.compare_earlier(diagnosis, replace(then, last="another"))
        nobody = case.compare_earlier(replace(diagnosis, culprit=""), then)
    start = f"`import` is not the model that it was in {project.good.run} (model.onnx changed)"
    very = f"{start}: built from the earlier one, `int8` is unchanged"
    slower = "it takes 2 ms longer than the accepted baseline (20 %); no node explains it"
    assert (compared.culprit, compared.sentence) == ("import", f"{very}; {slower}")
    assert (other.culprit, other.sentence, other.notes) == ("int8", "`int8` is slow", (start,))
    assert nobody.sentence == f"`int8` is slow; {very}"


def test_the_same_model_and_no_good_run_say_nothing(project: Project) -> None:
    assert past_of(project, project.question(project.good, "accuracy", "max_regression")) is None
    question = project.question(project.bad, "accuracy", "min")
    assert past_of(project, replace(question, gate=replace(question.gate, rule="max"))) is None


def test_a_run_of_another_file_that_has_the_name_is_no_good_one(project: Project) -> None:
    """Its first model is another product, not this one before a change."""
    question = project.question(project.bad, "accuracy", "min")
    assert past_of(project, question) is not None
    other = project.file.with_name("other.yaml")
    other.touch()
    assert past_of(project, replace(question, result=replace(project.bad, file=str(other)))) is None


SWAPPED = """
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  accuracy:
    uses: measure/accuracy
    needs: {model: import}
    with: {dataset: "rows.csv", metrics: [accuracy, f1]}
    gate: {accuracy: {min: 0.8}, f1: {min: 0.8}}
"""


def test_a_dataset_that_changed_since_the_gates_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sentence stood there for each gate, without a word of the data."""
    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] a) => (float[N,2] y) <float[1,2] w = {-1, 1}> '
    body = "{ s = Constant <value_ints = [-1, 1]> () b = Reshape (a, s) y = MatMul (b, w) }"
    onnx.save(onnx.parser.parse_model(text + body), "model.onnx")
    Path("release.yaml").write_text(SWAPPED)
    for swapped in (False, True):
        rows = [f"{place - 19.5},{int((place >= 20) != swapped)}" for place in range(40)]
        Path("rows.csv").write_text("\n".join(["a,labels", *rows]) + "\n")
        result = orun.run("release.yaml")
        if not swapped:
            good = result.run
    assert main(["blame", "release.yaml"]) == 0
    assert capsys.readouterr().out == (
        "\naccuracy accuracy min 0.8; accuracy f1 min 0.8\n\n"
        "accuracy is 0 %, f1 is 0 % at `import` already, and no stage after it made them worse\n"
        f"the gate passed in {good}; since then, of `accuracy`: rows.csv changed\n"
    )
