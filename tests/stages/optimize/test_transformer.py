from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from orun.errors import StageFailed
from orun.stages.optimize._fusion import COUNTED
from orun.stages.optimize._fusion.optimizer import read_heads
from tests.stages.models import ADD, parse, tied
from tests.stages.support import StageRun, artifact, run_stage

KNOWN = pytest.mark.skipif(
    tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 31),
    reason="ONNX Runtime's optimizer knows the BERT of transformers 5 from 1.31 on",
)


def fuse(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("optimize/transformer", folder, params, inputs={"model": model})


def fused(run: StageRun) -> dict[str, float]:
    return {name: run.value(f"fused.{name}") for name in COUNTED if run.value(f"fused.{name}")}


@pytest.fixture(scope="module")
def fused_model(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> StageRun:
    return fuse(tmp_path_factory.mktemp("made"), tiny_bert, expect={"Attention": 2, "SkipLayerNormalization": 4})


def test_every_layer_is_fused_and_agrees(fused_model: StageRun) -> None:
    assert fused(fused_model) == {
        "Attention": 2,
        "EmbedLayerNormalization": 1,
        "SkipLayerNormalization": 4,
        "BiasGelu": 2,
    }
    assert fused_model.value("max_abs_error") < 1e-5
    assert fused_model.value("nodes") < 70
    assert fused_model.value("nodes_before") > 100
    assert fused_model.notes == ()
    assert fused_model.log.splitlines()[0] == "4 attention heads, hidden size 32"


@KNOWN
def test_where_its_optimizer_knows_the_model_it_is_taken(fused_model: StageRun) -> None:
    log = fused_model.log.splitlines()
    assert log[1] == "fused by method onnxruntime"
    assert [line.partition(", by")[0] for line in log if line.startswith("Attention: ")] == [
        f"Attention: /bert/encoder/layer.{layer}/attention/self/Reshape_3_output_0" for layer in (0, 1)
    ]
    assert fused_model.value("nodes") < 40


@pytest.mark.slow
def test_after_further_optimizations(tmp_path: Path, tiny_bert: Path, fused_model: StageRun) -> None:
    extended = fuse(tmp_path, tiny_bert, level="extended")
    assert fused(extended) == fused(fused_model)
    assert extended.value("max_abs_error") < 1e-5


@pytest.mark.slow
def test_projections_may_stay_apart(tmp_path: Path, tiny_bert: Path) -> None:
    run = fuse(tmp_path, tiny_bert, multi_head_attention=True)
    assert fused(run) == {
        "MultiHeadAttention": 2, "EmbedLayerNormalization": 1, "SkipLayerNormalization": 4, "BiasGelu": 2
    }  # fmt: skip


@pytest.mark.slow
def test_a_fusion_is_left_out(tmp_path: Path, tiny_bert: Path) -> None:
    run = fuse(tmp_path, tiny_bert, disable=["attention", "bias_gelu"])
    assert [run.value(f"fused.{name}") for name in ("Attention", "BiasGelu", "Gelu", "SkipLayerNormalization")] == [
        0, 0, 2, 4,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "by", "expected"), [("rules", "rules", 12), pytest.param("auto", "onnxruntime", 1, marks=KNOWN)]
)
def test_more_or_fewer_than_expected_fail_the_stage(
    tmp_path: Path, tiny_bert: Path, method: str, by: str, expected: int
) -> None:
    with pytest.raises(StageFailed) as caught:
        fuse(
            tmp_path,
            tiny_bert,
            method=method,
            expect={"Attention": expected, "BiasGelu": 2},
            disable=["embed_layer_norm"],
        )
    assert str(caught.value) == (
        f"expected {expected} Attention, got 2\n"
        f"  fused by method {by}: Attention 2, BiasGelu 2, LayerNormalization 1, SkipLayerNormalization 4\n"
        "  hint: correct `expect`, try another `method`, or fuse before what takes the layers apart; "
        "the log lists what was fused"
    )


def test_a_right_padded_mask_is_right_for_such_masks_alone(tmp_path: Path, tiny_bert: Path) -> None:
    run = fuse(tmp_path, tiny_bert, mask="right-padded")
    assert run.value("max_abs_error") < 1e-5
    assert "disagrees" not in run.log  # it was compared on such masks alone
    (attention, _) = [node for node in onnx.load(run.model).graph.node if node.op_type == "Attention"]
    assert attention.input[3] != "attention_mask"  # positions where the text ends, one to a text


@KNOWN
def test_dropping_the_mask_of_a_model_that_needs_it_is_caught(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, tiny_bert, method="onnxruntime", mask="none")
    assert caught.value.problem == "the fused model disagrees with the model before it in output 'hidden'"
    assert caught.value.hint == (
        "leave out the fusion that does it: `disable: [...]`; check `mask`, `num_heads` and `model_type`, or try "
        "another `method`"
    )


def test_heads_are_read_from_the_graph(tiny_bert: Path) -> None:
    assert read_heads(onnx.load(tiny_bert / "model.onnx")) == (4, 32)
    assert read_heads(parse(ADD)) == (0, 0)


def test_heads_that_do_not_divide_the_width(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, tiny_bert, method="onnxruntime", num_heads=5)
    assert str(caught.value) == (
        "5 attention heads and hidden size 32 do not go together\n"
        "  hint: give both `num_heads` and `hidden_size`, or none of them"
    )


def test_nothing_to_fuse(tmp_path: Path) -> None:
    run = fuse(tmp_path, artifact(tmp_path, parse(ADD)))
    assert fused(run) == {}
    assert run.notes == ("method onnxruntime found nothing to fuse in the model",)
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, artifact(tmp_path, parse(ADD)), expect={"Attention": 1})
    assert caught.value.why == "fused by method onnxruntime: nothing"


@pytest.mark.parametrize("method", ["rules", "onnxruntime"])
def test_a_table_of_words_that_is_the_last_product_as_well_is_stored_once(tmp_path: Path, method: str) -> None:
    """ONNX Runtime's optimizations store it a second time, turned."""
    run = fuse(tmp_path, artifact(tmp_path, tied()), method=method)
    assert [tensor.name for tensor in onnx.load(run.model).graph.initializer if len(tensor.dims) > 1] == ["table"]
    assert "stored once: table" in run.log
    assert run.value("max_abs_error") == 0
