"""`orun.init`: the text of a pipeline, and a pipeline with measured gates."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import orun
from orun.core.events import Event, StageStarted
from orun.errors import UsageError
from orun.scaffold.model_facts import InputFact, ModelFacts, read_model
from orun.scaffold.recipe import Request, stages_for
from orun.scaffold.targets import target_named

MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }'  # noqa: E501


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the working folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), "mlp.onnx")
    return Path("mlp.onnx")


def test_the_text_without_gates(model: Path) -> None:
    text = orun.init(model)
    assert [path.name for path in Path.cwd().iterdir()] == ["mlp.onnx"]
    Path("mlp.yaml").write_text(text, encoding="utf-8")
    pipeline = orun.load("mlp.yaml")
    assert [stage.uses for stage in pipeline.stages][:2] == ["convert/onnx", "optimize/simplify"]
    assert orun.init(model, goal="size<1MB") != text


def test_a_file_that_is_there_stays(model: Path) -> None:
    Path("p.yaml").touch()
    with pytest.raises(UsageError) as caught:
        orun.init(model, "p.yaml")
    assert (caught.value.what, caught.value.hint) == ("p.yaml is there already", "orun p.yaml")


def test_unknown_options_are_refused_before_anything_is_read(model: Path) -> None:
    with pytest.raises(UsageError):
        orun.init(model, goal="sice<1MB")
    with pytest.raises(UsageError):
        orun.init(model, target="cdua")


def test_an_interrupted_creation_leaves_no_file(model: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, StageStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        orun.init(model, "p.yaml", on_event=interrupt)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["artifacts", "mlp.onnx"]


@pytest.mark.slow
def test_a_file_with_measured_gates(model: Path) -> None:
    text = orun.init(model, "made/mlp.yaml")
    assert Path("made/mlp.yaml").read_text(encoding="utf-8") == text
    assert {verdict.outcome for verdict in orun.run("made/mlp.yaml").verdicts} <= {"passed", "no baseline"}


def test_outputs_without_a_batch_axis(model: Path) -> None:
    """They are known from the graph, so that the others can be compared."""
    del model
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y, int64[K,2] at) { y = Relu(x) z = NonZero(y) at = Transpose(z) }'  # noqa: E501
    onnx.save(onnx.parser.parse_model(text), "found.onnx")
    graph = read_model("found.onnx", Path()).graph
    assert graph
    assert (graph.outputs, graph.batched) == (("y", "at"), ("y",))


def test_a_transformer_that_takes_few_tokens_is_timed_with_no_more() -> None:
    tokens = InputFact("input_ids", "int64", ("batch", "sequence"), 49)
    for longest, size in ((62, 62), (510, 128), (0, 128)):
        facts = ModelFacts("torch", "few", (tokens,), ("logits",), longest=longest)
        (latency,) = [stage for stage in stages_for(Request(facts, target_named("cpu")), {}) if stage.name == "latency"]
        assert latency.parameters["shape"] == {"sequence": size}


@pytest.mark.parametrize("runs_here", [True, False])
def test_outputs_are_compared_on_the_target_where_this_machine_has_it(*, runs_here: bool) -> None:
    facts = ModelFacts("onnx", "m.onnx", (InputFact("x", "float32", ("N", 2)),), ("y",))
    stages = {stage.name: stage for stage in stages_for(Request(facts, target_named("cuda"), runs_here=runs_here), {})}
    assert stages["accuracy"].parameters.get("target") == ("cuda" if runs_here else None)
    assert stages["latency"].parameters["target"] == "cuda"


@pytest.mark.slow
def test_a_transformer_that_takes_few_tokens(tmp_path: Path) -> None:
    import transformers

    config = transformers.DistilBertConfig(
        dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=50, max_position_embeddings=64, num_labels=3
    )
    transformers.DistilBertForSequenceClassification(config).save_pretrained(tmp_path / "few")
    facts = read_model(str(tmp_path / "few"), tmp_path)
    assert (facts.outputs, facts.longest) == (("logits",), 62)
