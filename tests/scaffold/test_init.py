"""`orun.init`: the text of a pipeline, and a pipeline with measured gates."""

from __future__ import annotations

import math
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import orun
from orun.core.events import Event, StageStarted
from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import replace
from orun.errors import StageFailed, UsageError
from orun.scaffold import thresholds
from orun.scaffold.create import require_supported
from orun.scaffold.data_text import format_data
from orun.scaffold.goal import parse_goal
from orun.scaffold.inspection import inspect_model, parse_inputs
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts
from orun.scaffold.pipeline_text import format_pipeline
from orun.scaffold.recipe import Gates, explain_unjudged_labels, list_stages
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target
from orun.scaffold.thresholds import choose_gates
from tests.acceptance.support import shorten_init

CPU = find_target("cpu")
MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }'  # noqa: E501


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the working folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), "mlp.onnx")
    return Path("mlp.onnx")


def facts_of(source: str | Path, folder: Path = Path(), inputs: tuple[str, ...] = ()) -> ModelFacts:
    """What `init` reads of a model, in this process."""
    return inspect_model(str(source), folder, parse_inputs(inputs), trust=False)


def graph_of(source: str | Path) -> GraphFacts:
    graph = facts_of(source).graph
    assert graph
    return graph


def text_for(model: Path) -> str:
    """The pipeline that `init` writes for a model before anything is measured."""
    return format_pipeline(Path("mlp.yaml"), Request(facts_of(model), CPU), {})


def test_the_text_without_gates(model: Path) -> None:
    text = orun.init(model)
    assert text == text_for(model)
    assert [path.name for path in Path.cwd().iterdir()] == ["mlp.onnx"]
    Path("mlp.yaml").write_text(text, encoding="utf-8")
    pipeline = orun.load("mlp.yaml")
    assert [stage.uses for stage in pipeline.stages] == [
        "convert/onnx", "optimize/simplify", "quantize/dynamic", "measure/accuracy", "measure/latency",
        "release/card", "release/bundle",
    ]  # fmt: skip
    assert not any(stage.gates for stage in pipeline.stages)


def test_a_release_that_is_worse_than_the_original_has_a_comment_that_says_so(model: Path) -> None:
    """Only the terminal said it, and the file had gates that bless the larger size."""
    text = format_pipeline(Path("mlp.yaml"), Request(facts_of(model), CPU, drawback="larger and slower"), {})
    assert (
        "  # Weights in 8 bits. `reduce_range` keeps them exact on processors without VNNI instructions.\n"
        "  # Measured by `orun init`: larger and slower than the original.\n"
        "  int8:\n"
    ) in text
    assert text.count("Measured by") == 1


def test_the_gates_of_a_goal_are_in_the_text(model: Path) -> None:
    stages = orun.init(model, goal="size<1MB").split("\n\n")
    (gated,) = (stage for stage in stages if "\n    gate:\n" in stage)
    assert "\n  tune:\n" in gated
    assert gated.endswith("\n    gate:\n      size: {max: 1MB}")


def test_a_file_that_is_there_stays(model: Path) -> None:
    Path("p.yaml").touch()
    with pytest.raises(UsageError) as caught:
        orun.init(model, "p.yaml")
    assert (caught.value.problem, caught.value.hint) == ("p.yaml is there already", "orun p.yaml")


@pytest.mark.parametrize(
    ("goal", "target", "problem"),
    [("sice<1MB", "cpu", "the goal names no metric: 'sice'"), ("", "cdua", "no target 'cdua'")],
)
def test_unknown_options_are_refused_before_anything_is_read(goal: str, target: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        orun.init("no such model", goal=goal, target=target)
    assert caught.value.problem == problem


def test_an_interrupted_creation_leaves_no_file(model: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, StageStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        orun.init(model, "p.yaml", on_event=interrupt)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["artifacts", "mlp.onnx"]


@pytest.mark.slow
def test_a_file_with_measured_gates(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_init(monkeypatch)
    monkeypatch.setattr(thresholds, "NOTED_SHAPES", 0)  # the model has 107 bytes
    text = orun.init(model, "made/mlp.yaml")
    assert Path("made/mlp.yaml").read_text(encoding="utf-8") == text
    assert {verdict.outcome for verdict in orun.run("made/mlp.yaml").verdicts} <= {"passed", "no baseline"}
    above, _, _ = text.partition("  int8:\n")  # of four weights
    assert re.search(r"instructions\.\n?[ #]+Measured by `orun init`: larger[\w #\n]+original\.\n$", above), text


@pytest.mark.slow
def test_labels_that_are_no_classes_are_left_out(model: Path) -> None:
    Path("rows.csv").write_text("a,b,target\n" + "".join(f"{row},{-row},{row / 2}\n" for row in range(20)))
    text = orun.init(model, "made.yaml", data="rows.csv", target="dml")  # which skips the timing
    assert "labels: target" in text
    assert comment_of(text, "Examples") == (
        "Examples that the model is judged by. Check how they become its inputs. `labels: target` is assumed: columns "
        "of this name usually hold labels."
    )
    assert "metrics: [cosine]" in text
    assert comment_of(text, "Outputs") == (
        "Outputs compared with the original's. No gate judges the labels of the data: rmse needs a predicted number "
        "for each label. Next: name the output that holds the predictions in `outputs`, or pick them in a function: "
        "`postprocess: file.py:function`"
    )


CLASSIFIER = """
<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)
<float[2,2] w = {{{weights}}}> {{ y = MatMul(x, w) }}
"""


RETRAINED = """
import numpy as np
from sklearn.linear_model import LogisticRegression


def load():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    places = np.digitize({column}, [-0.5, 0.5])
    return LogisticRegression().fit(rows, np.array({names})[places])
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", [["leave", "maybe", "stay"], [4, 5, 6]], ids=["texts", "numbers"])
def test_a_classifier_that_got_worse_by_its_labels_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str] | list[int]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{place / 100},{place * 7 % 20},{names[(place > -50) + (place > 50)]}" for place in range(-150, 150)]
    Path("rows.csv").write_text("\n".join(["x0,x1,label", *lines]) + "\n")
    Path("net.py").write_text(RETRAINED.format(column="rows[:, 0]", names=names))
    text = orun.init("net.py:load", "made.yaml", data="rows.csv", target="dml")  # which skips the timing
    assert "metrics: [cosine, agreement, accuracy]" in text
    assert "      agreement: {min: 98.5%}\n      accuracy: {min: 92.1%, max_drop: 2%}\n" in text
    Path("net.py").write_text(RETRAINED.format(column="rows[:, 1]", names=names))
    failed = [verdict for verdict in orun.run("made.yaml").verdicts if verdict.outcome == "failed"]
    assert [(verdict.metric, verdict.rule, verdict.measured) for verdict in failed] == [("accuracy", "min", 0.33)]


ROUNDED = """
import numpy as np
from sklearn.linear_model import LogisticRegression


def load():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    model = LogisticRegression().fit(rows, rows[:, 0] > 0)
    answer = model.predict_proba
    model.predict_proba = lambda X: answer(X) + {error} * (np.asarray(X)[:, :1] < {share})
    return model
"""


@pytest.mark.slow
def test_the_agreement_that_a_conversion_asks_for_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file without it was left, and blocked the next try."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("x0,x1\n" + "".join(f"{place},{place % 7}\n" for place in range(200)))
    Path("net.py").write_text(ROUNDED.format(error=0.01, share=3))
    text = orun.init("net.py:load", "made.yaml", data="rows.csv", target="dml")
    assert "min_agreement: 98.5%}" in text
    assert comment_of(text, "The estimator") == (
        "The estimator as ONNX. Its predictions are compared with scikit-learn's. `min_agreement` allows the few "
        "rounded values that differed when `orun init` converted it."
    )
    Path("net.py").write_text(ROUNDED.format(error=0.01, share=100))
    with pytest.raises(StageFailed) as caught:
        orun.init("net.py:load", "other.yaml", data="rows.csv", target="dml")
    assert (
        caught.value.problem
        == "stage convert: the converted model disagrees with scikit-learn in output 'probabilities'"
    )
    assert "min_agreement" not in Path("other.yaml").read_text()


@pytest.mark.slow
def test_a_column_of_a_usual_name_that_holds_no_labels_gets_no_gate(model: Path) -> None:
    """An accuracy of chance by the column `class`, of cabins here, was blessed by a gate without a word."""
    Path("rows.csv").write_text("a,b,class\n" + "".join(f"{n % 2},{1 - n % 2},{n // 2 % 2}\n" for n in range(100)))
    onnx.save(onnx.parser.parse_model(CLASSIFIER.format(weights="1, 0, 0, 1")), model)
    text = orun.init(model, "made.yaml", data="rows.csv", target="dml")
    assert comment_of(text, "Outputs") == (
        "Outputs compared with the original's. No gate judges the labels of the data: an accuracy of 50 % is about "
        "chance, so the column of `labels` may be wrong. Next: correct it, and add a gate"
    )


@pytest.mark.slow
def test_a_model_that_got_worse_by_its_labels_fails(model: Path) -> None:
    rows = [(place % 2, 1 - place % 2, (place + (place % 10 == 0)) % 2) for place in range(100)]
    Path("rows.csv").write_text("a,b,target\n" + "".join(f"{a},{b},{1 - label}\n" for a, b, label in rows))
    onnx.save(onnx.parser.parse_model(CLASSIFIER.format(weights="1, 0, 0, 1")), model)
    text = orun.init(model, "made.yaml", data="rows.csv", target="dml")
    assert "accuracy: {min: 78.8%, max_drop: 6.2%}" in text
    onnx.save(onnx.parser.parse_model(CLASSIFIER.format(weights="-1, 0, 0, -1")), model)
    failed = [verdict for verdict in orun.run("made.yaml").verdicts if verdict.outcome == "failed"]
    assert [(verdict.metric, verdict.rule, verdict.measured) for verdict in failed] == [("accuracy", "min", 0.1)]


READER = """
import helper
import orun


def data():
    return orun.Dataset({"x": helper.load()}, labels=[0] * 20)
"""


@pytest.mark.slow
def test_a_function_for_examples_that_fails_in_a_stage_ends_it(model: Path) -> None:
    """It ran where `init` looked at it, and the file came without a gate on answers and without the stage `int8`."""
    np.save("rows.npy", np.ones((20, 2), np.float32))
    Path("helper.py").write_text("import numpy\n\ndef load():\n    return numpy.load('rows.npy')\n")
    Path("reader.py").write_text(READER)
    with pytest.raises(UsageError) as caught:
        orun.init(model, "made.yaml", data="reader.py:data", target="dml")
    assert caught.value.problem == "reader.py:data failed in the stage accuracy"
    assert caught.value.why == (
        "accuracy raised FileNotFoundError: [Errno 2] No such file or directory: 'rows.npy'\nat helper.py:4 in load"
    )
    assert caught.value.hint == "A stage runs in an empty folder of its own: Path(__file__).parent / 'rows.npy'"
    assert not Path("made.yaml").exists()


@pytest.mark.slow
def test_an_image_that_cannot_be_read_ends_it(model: Path) -> None:
    """It is no reason to leave a stage out of the release."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4,4] x) => (float[N,3,4,4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    Path("photos").mkdir()
    Image.new("RGB", (4, 4)).save("photos/a.png")
    Path("photos/b.png").write_bytes(b"no image")
    with pytest.raises(UsageError) as caught:
        orun.init(model, "made.yaml", data="photos", target="dml")
    assert caught.value.problem == "photos/b.png cannot be read as an image"
    assert sorted(path.name for path in Path().iterdir()) == ["mlp.onnx", "photos"]


@pytest.mark.slow
def test_examples_of_the_user_that_no_stage_can_compare_with(model: Path) -> None:
    Path("rows.csv").write_text("a,b\n1,inf\n2,3\n")
    text = " ".join(orun.init(model, "made.yaml", data="rows.csv", target="dml").replace("#", "").split())
    assert "Left out accuracy: output 'y' of the model is not finite for example 0: " in text
    assert (
        "Left out half: nothing here can compare its outputs with the original's: the examples of rows.csv do not "
        "serve, for the reason of accuracy. Next: change them."
    ) in text


def test_outputs_without_a_batch_axis(model: Path) -> None:
    """They are known from the graph, so that the others can be compared."""
    del model
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y, int64[K,2] at) { y = Relu(x) z = NonZero(y) at = Transpose(z) }'  # noqa: E501
    onnx.save(onnx.parser.parse_model(text), "found.onnx")
    graph = graph_of("found.onnx")
    assert (graph.outputs, graph.batched) == (("y", "at"), ("y",))


REGRESSION = """
<ir_version: 8, opset_import: ["" : 17]> g (float[N,32] x) => (float[{axes}] {outputs})
<float[32,1] w = {{{weights}}}> {{ {body} }}
"""


def save_regression(path: Path, body: str, outputs: str = "y", axes: str = "N,1") -> None:
    weights = ", ".join(str(number * 7 % 32 / 10) for number in range(32))
    onnx.save(onnx.parser.parse_model(REGRESSION.format(axes=axes, outputs=outputs, weights=weights, body=body)), path)


@pytest.mark.parametrize(
    ("body", "outputs", "axes", "fidelity"),
    [
        ("y = MatMul (x, w)", "y", "N,1", "sqnr"),
        ("z = MatMul (x, w) y = ReduceSum <keepdims = 0, noop_with_empty_axes = 0> (z)", "y", "", "cosine"),
        ("y = MatMul (x, w) c = Cast <to = 7> (y)", "y, int64[N,1] c", "N,1", "sqnr"),
        ("y = MatMul (x, w) z = Relu (x)", "y, float[N,32] z", "N,1", "cosine"),
        ("y = Relu (x)", "y", "N,32", "cosine"),
    ],
)
def test_outputs_of_one_number_are_compared_by_their_noise(
    model: Path, body: str, outputs: str, axes: str, fidelity: str
) -> None:
    save_regression(model, body, outputs, axes)
    assert Request(facts_of(model), CPU).fidelity == fidelity


def test_outputs_that_are_not_known_yet_are_compared_by_what_any_output_has() -> None:
    facts = ModelFacts("sklearn", "prices.joblib")
    (accuracy,) = [stage for stage in list_stages(Request(facts, CPU), {}) if stage.name == "accuracy"]
    assert accuracy.parameters["metrics"] == ["sqnr"]


def test_outputs_of_classes_are_compared_by_their_agreement(model: Path) -> None:
    save_regression(model, "z = MatMul (x, w) y = Relu (x) c = IsInf (x) t = Identity (x)", "y, bool[N,32] c", "N,32")
    facts = facts_of(model)
    for outputs, metrics in (((), ["cosine", "agreement"]), (("y",), ["cosine"]), (("c",), ["agreement"])):
        request = Request(facts, CPU, outputs=outputs)
        (accuracy,) = [stage for stage in list_stages(request, {}) if stage.name == "accuracy"]
        assert accuracy.parameters["metrics"] == metrics


@pytest.mark.parametrize(
    ("body", "outputs", "axes", "changes", "metrics"),
    [
        ("y = Relu (x)", "y", "N,32", {}, ["cosine", "accuracy"]),
        ("y = Relu (x)", "y", "N,32", {"data": {"path": "rows.csv"}}, ["cosine"]),
        ("y = Relu (x)", "y", "N,32", {"data": "rows.csv"}, ["cosine"]),
        ("y = Relu (x)", "y", "N,32", {"label_refusal": "no classes"}, ["cosine"]),
        ("y = MatMul (x, w)", "y", "N,1", {}, ["sqnr"]),
        ("y = MatMul (x, w)", "y", "N,1", {"form": "sklearn"}, ["sqnr", "rmse"]),
        ("y = Relu (x)", "y", "N,32", {"form": "sklearn"}, ["sqnr", "rmse"]),
        ("y = Relu (x)", "y", "N,32", {"labels": "numbers"}, ["sqnr", "rmse"]),
        ("y = Relu (x)", "y", "N,32", {"labels": "numbers", "label_refusal": "no classes"}, ["cosine"]),
        ("y = MatMul (x, w) c = Cast <to = 7> (y)", "y, int64[N,1] c", "N,1", {}, ["sqnr", "agreement", "accuracy"]),
        ("y = MatMul (x, w) c = Cast <to = 8> (y)", "y, string[N,1] c", "N,1", {}, ["sqnr", "accuracy"]),
        ("y = Relu (x) c = Cast <to = 8> (y)", "y, string[N,32] c", "N,32", {}, ["cosine", "agreement", "accuracy"]),
    ],
)
def test_outputs_are_compared_with_labels_where_there_may_be_both(
    model: Path, body: str, outputs: str, axes: str, changes: dict[str, Any], metrics: list[str]
) -> None:
    save_regression(model, body, outputs, axes)
    options: dict[str, Any] = {"form": "onnx", "data": {"path": "rows.csv", "labels": "y"}, **changes}
    request = Request(replace(facts_of(model), form=options.pop("form")), CPU, **options)
    (accuracy,) = [stage for stage in list_stages(request, {}) if stage.name == "accuracy"]
    assert accuracy.parameters["metrics"] == metrics


SCORES = GraphFacts(outputs=("y",))


@pytest.mark.parametrize(
    ("changes", "gates", "why"),
    [
        ({}, {"accuracy": {"accuracy": {"min": "90%"}}}, ""),
        ({"data": "rows.csv"}, {"accuracy": {}}, ""),
        ({"goal": parse_goal("size<1MB")}, {"accuracy": {}}, ""),
        ({}, {}, ""),  # not measured yet
        ({"label_refusal": "texts. Next: classes"}, {"accuracy": {}}, "texts. Next: classes"),
        ({}, {"latency": {}}, "the pipeline has no stage `accuracy`"),
        (
            {},
            {"accuracy": {"cosine.mean": {"min": "0.9"}}},
            "the examples are too few, or accuracy too bad, for a threshold. Next: name more examples, or add a gate",
        ),
        (
            {"label_doubt": "an accuracy of 25 % is about chance. Next: correct it"},
            {"accuracy": {"cosine.mean": {"min": "0.9"}}},
            "an accuracy of 25 % is about chance. Next: correct it",
        ),
        (
            {"data": "data.py:examples", "labels": "other"},
            {"accuracy": {}},
            "an example has several. Next: add a metric for them, and a gate: orun stages measure/accuracy",
        ),
        (
            {"facts": ModelFacts("onnx", "net.onnx", graph=replace(SCORES, is_single_valued=True))},
            {"accuracy": {}},
            "a single score may be of a class or a number. Next: add `auc` or `rmse` to the metrics, and a gate",
        ),
        (
            {"facts": ModelFacts("torch", "wav2vec2", is_ctc=True, graph=SCORES)},
            {"accuracy": {}},
            (
                "if the labels are texts, add `wer` and `cer`, with `text: {tokenizer: wav2vec2}`, and a gate: "
                "wer: {max_increase: 1%}"
            ),
        ),
    ],
)
def test_why_no_gate_judges_the_labels(changes: dict[str, Any], gates: Gates, why: str) -> None:
    facts = ModelFacts("onnx", "net.onnx", graph=SCORES)
    request = replace(Request(facts, CPU, {"path": "rows.csv", "labels": "label"}), **changes)
    assert explain_unjudged_labels(request, gates) == (f"no gate judges the labels of the data: {why}" if why else "")


def test_what_may_be_labels_and_is_not_taken_for_them() -> None:
    labels = LabelFacts(refusal="nothing takes the column price. Next: name it")
    request = Request(ModelFacts("onnx", "net.onnx", graph=SCORES), CPU, "rows.csv", label_facts=labels)
    note = "no gate judges labels: nothing takes the column price. Next: name it"
    assert explain_unjudged_labels(request, {"accuracy": {}}) == note


COLOURS = """
<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4,4] x) => (float[N,3] y)
{ y = ReduceMean <axes = [2, 3], keepdims = 0> (x) }
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "gate", "comment"),
    [
        (("a-red", "b-green", "c-blue"), "      accuracy: {min: ", "`accuracy` compares both with the labels"),
        (
            ("c-red", "b-green", "a-blue"),
            "",
            (
                "No gate judges the labels of the data: an accuracy of 33.3 % is about chance, so the order of "
                "`classes`, or the preparation of `images`, may be wrong. Next: correct it, and add a gate"
            ),
        ),
    ],
)
def test_class_folders_of_a_model_that_names_no_classes(
    model: Path, names: tuple[str, ...], gate: str, comment: str
) -> None:
    """Nothing judged the labels, so that a wrong preparation passed with a better cosine."""
    onnx.save(onnx.parser.parse_model(COLOURS), model)
    for place, name in enumerate(names):
        Path("photos", name).mkdir(parents=True)
        colour = tuple(255 * (channel == place) for channel in range(3))
        for number in range(20):
            Image.new("RGB", (4, 4), colour).save(f"photos/{name}/{number}.png")
    text = orun.init(model, "made.yaml", data="photos", target="dml")
    assert f"classes: [{', '.join(sorted(names))}]" in text
    assert comment_of(text, "Examples") == (
        "Examples that the model is judged by. Check how they become its inputs. `classes` is assumed: the folders of "
        "photos in the order of their names, as there are as many as the model has scores. Nothing beside the model "
        "says what their order is."
    )
    assert comment_of(text, "Outputs").startswith(f"Outputs compared with the original's. {comment}")
    assert bool(gate) == ("      accuracy: {" in text)
    assert gate in text


@pytest.mark.parametrize(
    ("right", "low", "most"),
    [(0.9, 0.998, "1.5%"), (0.9, 0.96875, "4.7%"), (0.9, 0.6, None), (0.0, -UNBOUNDED, None), (0.9, -math.inf, None)],
)
def test_the_gate_of_an_accuracy_allows_what_the_examples_cannot_exclude(
    right: float, low: float, most: str | None
) -> None:
    unchanged = Comparison(right, Estimate(1.0, low, 2.0), Estimate(0.0, -1.0, 1.0), "paired", 200)
    metrics = {"accuracy": Metric(right, "ratio", reference=unchanged)}
    accuracy = StageResult("accuracy", "measure/accuracy", "built", metrics=metrics)
    assert choose_gates(RunResult("run", "net", "net.yaml", 0, 1.0, 0.0, {}, (accuracy,), (), Path())) == {
        "accuracy": {} if most is None else {"accuracy": {"max_drop": most}}
    }


def test_the_gate_of_an_error_allows_what_the_examples_cannot_exclude() -> None:
    compared = Comparison(2.0, Estimate(1.001, 0.99, 1.019), Estimate(0.0, -1.0, 1.0), "paired", 200)
    metrics = {"rmse": Metric(2.002, "", "lower", reference=compared)}
    accuracy = StageResult("accuracy", "measure/accuracy", "built", metrics=metrics)
    assert choose_gates(RunResult("run", "net", "net.yaml", 0, 1.0, 0.0, {}, (accuracy,), (), Path())) == {
        "accuracy": {"rmse": {"max_increase": "2.9%"}}
    }


@pytest.mark.parametrize(
    ("measured", "rules"),
    [
        (Metric(0.9, "ratio", "higher", interval=Estimate(0.9, 0.8316, 0.95)), {"accuracy": {"min": "79.7%"}}),
        (Metric(1.0, "ratio", "higher", interval=Estimate(1.0, 1.0, 1.0)), {"accuracy": {"min": "98.5%"}}),
        (Metric(0.5, "ratio", "higher", interval=Estimate(0.5, 0.1, 0.9)), {}),
        (Metric(0.0, "ratio", "higher", interval=Estimate(0.0, 0.0, 0.0)), {}),
        (Metric(0.9, "ratio", "higher"), {}),
        (Metric(2.002, "", "lower", interval=Estimate(2.002, 1.8, 2.3419)), {"rmse": {"max": "2.52"}}),
        (Metric(0.02, "", "lower", interval=Estimate(0.02, 0.01, 0.0234)), {"rmse": {"max": "0.0251"}}),
        (Metric(70000.0, "", "lower", interval=Estimate(70000.0, 6e4, 81234.0)), {"rmse": {"max": "86900"}}),
        (Metric(0.0, "", "lower", interval=Estimate(0.0, 0.0, 0.0)), {}),
    ],
)
def test_the_gate_of_labels_lies_beyond_the_measured_interval(
    measured: Metric, rules: dict[str, dict[str, str]]
) -> None:
    metrics = {"rmse" if measured.better == "lower" else "accuracy": measured}
    accuracy = StageResult("accuracy", "measure/accuracy", "built", metrics=metrics)
    assert choose_gates(RunResult("run", "net", "net.yaml", 0, 1.0, 0.0, {}, (accuracy,), (), Path())) == {
        "accuracy": rules
    }


def test_the_gate_of_an_agreement_leaves_room_for_other_kernels() -> None:
    for measured, least in ((1.0, "98.5%"), (0.96, "94%"), (0.2, None)):
        metrics = {"agreement": Metric(measured, "ratio")}
        accuracy = StageResult("accuracy", "measure/accuracy", "built", metrics=metrics)
        gate = {} if least is None else {"agreement": {"min": least}}
        assert choose_gates(RunResult("run", "net", "net.yaml", 0, 1.0, 0.0, {}, (accuracy,), (), Path())) == {
            "accuracy": gate
        }


@pytest.mark.slow
def test_the_gate_of_a_regression_is_near_what_was_measured(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_init(monkeypatch)
    save_regression(model, "y = MatMul (x, w)")
    text = orun.init(model, "made.yaml")
    assert "metrics: [sqnr]" in text
    result = orun.run("made.yaml")
    assert {verdict.metric: verdict.outcome for verdict in result.verdicts}["sqnr"] == "passed"
    measured = result["accuracy"].metrics["sqnr"].value
    assert f"sqnr: {{min: {math.floor(measured - 10 * math.log10(1.5))}}}" in text


def test_a_transformer_that_takes_few_tokens_is_timed_with_no_more() -> None:
    tokens = InputFact("input_ids", "int64", ("batch", "sequence"), 49)
    for longest, size in ((62, 62), (510, 128), (0, 128)):
        facts = ModelFacts("torch", "few", (tokens,), ("logits",), longest=longest)
        (latency,) = [stage for stage in list_stages(Request(facts, CPU), {}) if stage.name == "latency"]
        assert latency.parameters["shape"] == {"sequence": size}


@pytest.mark.parametrize(
    ("first", "shape"), [(("batch", "time", 3), {"time": 128}), (("time", "batch", 3), {"time": 128}), (("N", 3), None)]
)
def test_the_batch_is_timed_as_one_wherever_its_axis_stands(
    first: tuple[str | int, ...], shape: dict[str, int] | None
) -> None:
    """A state of a recurrent model has its layers first, and a model may have the time first."""
    inputs = (InputFact("x", "float32", first), InputFact("h", "float32", (1, "batch", 32)))
    facts = ModelFacts("torch", "step", inputs, ("y",))
    (latency,) = [stage for stage in list_stages(Request(facts, CPU), {}) if stage.name == "latency"]
    assert latency.parameters.get("shape") == shape


@pytest.mark.parametrize("runs_here", [True, False])
def test_outputs_are_compared_on_the_target_where_this_machine_has_it(*, runs_here: bool) -> None:
    facts = ModelFacts("onnx", "m.onnx", (InputFact("x", "float32", ("N", 2)),), ("y",))
    stages = {stage.name: stage for stage in list_stages(Request(facts, find_target("cuda"), runs_here=runs_here), {})}
    assert stages["accuracy"].parameters.get("target") == ("cuda" if runs_here else None)
    assert stages["latency"].parameters["target"] == "cuda"


@pytest.mark.slow
def test_a_transformer_that_takes_few_tokens(tmp_path: Path) -> None:
    import transformers

    config = transformers.DistilBertConfig(
        dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=50, max_position_embeddings=64, num_labels=3
    )
    transformers.DistilBertForSequenceClassification(config).save_pretrained(tmp_path / "few")
    facts = facts_of(tmp_path / "few", tmp_path)
    assert (facts.outputs, facts.longest) == (("logits",), 64)


def comment_of(text: str, beginning: str) -> str:
    """The comment of a pipeline about a stage, on one line."""
    lines = text[text.index(f"  # {beginning}") :].splitlines()
    return " ".join(line.removeprefix("  # ") for line in takewhile(lambda line: line.startswith("  # "), lines))


@pytest.mark.parametrize(
    "weigh",
    [
        "r = MatMul (p, x)",
        "h = Reshape (p, same) d = Cast <to = 1> (h) r = MatMul (d, x)",
        "r = MatMul (p, x) z = ReduceMax (p)",
    ],
)
def test_attention_by_what_the_graph_computes(model: Path, weigh: str) -> None:
    """Probabilities may be moved before they weigh the values, and may have other readers."""
    del model
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3,4] x) => (float[2,3,4] r) <int64[3] same = {2, 3, 3}> '
        f"{{ k = Transpose <perm = [0, 2, 1]> (x) s = MatMul (x, k) p = Softmax (s) {weigh} }}"
    )
    onnx.save(onnx.parser.parse_model(text), "attention.onnx")
    assert graph_of("attention.onnx").attention == 1


QUANTIZED = [
    "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) y = MatMul (d, w)",
    "q, t, o = DynamicQuantizeLinear (x) i = MatMulInteger (q, c, o) y = Cast <to = 1> (i)",
]


@pytest.mark.parametrize("body", QUANTIZED)
def test_a_model_that_is_quantized_already(model: Path, body: str) -> None:
    weights = "<float[2,2] w = {1, 2, 3, 4}, int8[2,2] c = {1, 2, 3, 4}, float s = {1}, uint8 z = {0}>"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) {weights} {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), model)
    written = text_for(model)
    assert "quantize/" not in written
    assert comment_of(written, "Left out") == (
        "Left out int8: the model is quantized already. Next: to quantize it otherwise, begin with the float32 model."
    )


def test_an_input_of_integers_is_no_quantized_model(model: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (uint8[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float s = {1}> { d = DequantizeLinear (x, s) y = MatMul (d, w) }'  # noqa: E501
    onnx.save(onnx.parser.parse_model(text), model)
    assert "uses: quantize/dynamic" in text_for(model)


@pytest.mark.slow
def test_operators_that_onnx_runtime_does_not_have(model: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> g (float[N,2] x) => (float[N,2] y) { z = com.acme.Fancy (x) y = com.acme.Plain (z) }'  # noqa: E501
    onnx.save(onnx.parser.parse_model(text), model)
    with pytest.raises(UsageError) as caught:
        orun.init(model, "mlp.yaml")
    assert [path.name for path in Path.cwd().iterdir()] == ["mlp.onnx"]
    assert str(caught.value) == (
        "mlp.onnx has operators that ONNX Runtime does not have: com.acme:Fancy, com.acme:Plain\n"
        "  it runs only with the library that defines them\n"
        "  hint: orun init mlp.onnx --dry-run > mlp.yaml; name the library there, in the `session` of the target: "
        "custom_op_libraries: [FILE]; then: orun mlp.yaml"
    )
    Path("mlp.yaml").write_text(text_for(model), encoding="utf-8")
    kinds = [stage.uses for stage in orun.load("mlp.yaml").stages]
    assert kinds == ["convert/onnx", "measure/latency", "release/card", "release/bundle"]


def test_operators_that_onnx_does_not_define(model: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) { z = Fancy (x) y = Relu (z) }'
    onnx.save(onnx.parser.parse_model(text), model)
    with pytest.raises(UsageError) as caught:
        require_supported(Path("mlp.yaml"), Request(facts_of(model), CPU))
    assert str(caught.value) == (
        "mlp.onnx has operators that ONNX does not define: Fancy\n"
        "  they have no domain, as ONNX's own operators\n"
        "  hint: export the model with the domain of the library that defines them, then: orun init mlp.onnx"
    )


def test_operators_of_functions_of_the_model_and_of_onnx_runtime(model: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "mine" : 1, "com.microsoft" : 1]>
    g (float[N,2] x) => (float[N,2] y) { z = mine.Twice (x) y = com.microsoft.Gelu (z) }
    <domain: "mine", opset_import: ["" : 17]> Twice (a) => (b) { b = Add (a, a) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    assert graph_of(model).unknown == ()


def test_sizes_that_weights_fix(model: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("float[N,2] x", "float[N,features] x")), model)
    assert graph_of(model).inputs == (InputFact("x", "float32", ("N", 2)),)
    assert "shape:" not in text_for(model)  # of the timing


def test_a_module_that_takes_no_short_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later stages and the made-up data get sizes that it takes."""
    monkeypatch.chdir(tmp_path)
    code = "import torch\n\n\ndef load():\n    return torch.nn.Conv1d(2, 3, 10)\n"
    Path("net.py").write_text(code, encoding="utf-8")
    facts = facts_of("net.py:load", Path("not-there-yet"), ("input=float32[batch,2,samples]",))
    assert facts.source == "../net.py:load"
    assert facts.sizes == {"samples": (400, 600)}
    stages = {stage.name: stage for stage in list_stages(Request(facts, CPU), {})}
    assert stages["export"].parameters["dims"] == {"samples": [400, 600]}
    assert stages["latency"].parameters["shape"] == {"samples": 400}
    assert "'input': random.normal(size=(n, 2, 400)).astype(np.float32)," in format_data("net.yaml", facts)


FRAMED = """
import torch


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = torch.nn.Conv1d(1, 4, 400, stride=320)

    def forward(self, sound):
        return self.frames(sound).mean(2)


class Limited(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.nn.Embedding(700, 1)
        self.frames = torch.nn.Conv1d(1, 4, 20)

    def forward(self, window):
        places = self.places(torch.arange(window.shape[1]))[:, 0]
        return self.frames((window + places)[:, None])


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = torch.nn.Conv1d(1, 4, 15, stride=8, padding=7)

    def forward(self, sound):
        return self.frames(sound)
"""


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        ("Pooled sound=float32[batch,1,samples]", {"samples": (4000, 6000)}),
        ("Limited window=float32[batch,steps]", {"steps": (400, 600)}),
        ("Padded sound=float32[batch,1,samples]", {"samples": (4000, 6000)}),
    ],
    ids=lambda value: value.partition(" ")[0] if isinstance(value, str) else "",
)
def test_sizes_at_which_a_module_of_sound_makes_several_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, sizes: dict[str, tuple[int, ...]]
) -> None:
    """One frame would be exported as a constant. A series that cannot be so long is no waveform."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(FRAMED, encoding="utf-8")
    name, _, declared = source.partition(" ")
    assert facts_of(f"net.py:{name}", Path(), (declared,)).sizes == sizes


HALVED = """
import torch


class Halved(torch.nn.Module):
    def forward(self, image):
        small = torch.nn.functional.max_pool2d(image, 32)
        return image + torch.nn.functional.interpolate(small, scale_factor=32)


def load():
    return Halved()
"""


@pytest.mark.parametrize("batch", ["batch", "1"])
def test_a_module_that_halves_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: str) -> None:
    """As a U-Net of five levels does: its sides are multiples of 32."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(HALVED, encoding="utf-8")
    facts = facts_of("net.py:load", Path(), (f"image=float32[{batch},3,height,width]",))
    assert facts.sizes == {"height": (224, 256), "width": (224, 256)}


def test_made_up_examples_of_a_batch_that_is_not_the_first_axis() -> None:
    """They have all axes, as they are fed one at a time."""
    inputs = (InputFact("x", "float32", ("time", "batch", 3)), InputFact("h", "float32", (2, "batch", 4)))
    text = format_data("net.yaml", ModelFacts("torch", "net", inputs, ("y",)))
    assert "'x': random.normal(size=(n, 32, 1, 3)).astype(np.float32)," in text
    assert "'h': random.normal(size=(n, 2, 1, 4)).astype(np.float32)," in text


@pytest.mark.slow
def test_an_encoder_with_a_decoder(tmp_path: Path) -> None:
    import transformers

    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    facts = facts_of(tmp_path / "t5", tmp_path)
    assert [str(item) for item in facts.inputs] == [
        "input_ids int64[batch, sequence]",
        "attention_mask int64[batch, sequence]",
        "decoder_input_ids int64[batch, target_sequence]",
    ]
    assert facts.outputs == ("logits", "encoder_last_hidden_state")
