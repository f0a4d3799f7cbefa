"""Each family of transformers, exported and fused: exact counts, and outputs that agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from _pytest.mark import ParameterSet

from benchmarks.families import FAMILIES
from orun.errors import StageFailed
from orun.stages.optimize._fusion import COUNTED
from tests.stages.conftest import Exports
from tests.stages.support import StageRun, run_stage

MODULES = Path(__file__).parents[1] / "modules"
CACHE = {"shape": ["batch", 4, "past", 16]}
DIMS = {"past": [3, 0, 8]}
LAYERS = {"EmbedLayerNormalization": 1, "SkipLayerNormalization": 4}
LATE = {"LayerNormalization": 1, "SkipLayerNormalization": 4}
GROUPED = {
    "GroupQueryAttention": 2,
    "RotaryEmbedding": 4,
    "SimplifiedLayerNormalization": 1,
    "SkipSimplifiedLayerNormalization": 4,
}
BERT = {"Attention": 2, "BiasGelu": 2, **LAYERS}
APART = {"MultiHeadAttention": 2, "BiasGelu": 2, **LATE}
EXPECTED = {
    "bert": BERT,
    "roberta": BERT,
    "distilbert": BERT,
    "electra": BERT,
    "mpnet": BERT,
    "albert": {"Attention": 2, "FastGelu": 2, **LAYERS},
    "gpt2": {"Attention": 2, "FastGelu": 2, **LATE},
    "vit": {"Attention": 2, "BiasGelu": 2, **LATE},
    "whisper": {"Attention": 2, "BiasGelu": 2, "Gelu": 2, **LATE},
    "clip": {"Attention": 4, "QuickGelu": 4, "LayerNormalization": 4, "SkipLayerNormalization": 7},
    "t5": {
        "Attention": 4,
        "MultiHeadAttention": 2,
        "SimplifiedLayerNormalization": 2,
        "SkipSimplifiedLayerNormalization": 10,
    },
    "llama": GROUPED,
    "mistral": GROUPED,
    "phi3": GROUPED,
    "qwen3": {**GROUPED, "SimplifiedLayerNormalization": 5},
    "gemma2": {**GROUPED, "SimplifiedLayerNormalization": 5, "Gelu": 2},
    "gemma3": {**GROUPED, "SimplifiedLayerNormalization": 9, "Gelu": 2},
    "mobilebert": {"MultiHeadAttention": 2},
    "modernbert": {"MultiHeadAttention": 2, "RotaryEmbedding": 2, "Gelu": 2, **LATE},
    "deberta": APART,
    "deberta_v2": APART,
    "bloom": {"MultiHeadAttention": 2, "LayerNormalization": 2, "SkipLayerNormalization": 4, "FastGelu": 2},
    "gpt_neox": {
        "MultiHeadAttention": 2,
        "LayerNormalization": 3,
        "SkipLayerNormalization": 2,
        "RotaryEmbedding": 4,
        "BiasGelu": 2,
    },
    "swin": {"Attention": 2, "LayerNormalization": 2, "SkipLayerNormalization": 4, "BiasGelu": 2},
    "segformer": {
        "Attention": 1,
        "MultiHeadAttention": 1,
        "LayerNormalization": 5,
        "SkipLayerNormalization": 4,
        "Gelu": 2,
    },
    "wav2vec2": {"Attention": 2, "LayerNormalization": 1, "SkipLayerNormalization": 5, "Gelu": 3, "BiasGelu": 2},
    "bart": {
        "Attention": 4,
        "MultiHeadAttention": 2,
        "EmbedLayerNormalization": 1,
        "SkipLayerNormalization": 11,
        "BiasGelu": 4,
    },
    "opt": {"Attention": 2, "LayerNormalization": 4, "SkipLayerNormalization": 1},
}
# MobileBERT's values reach thousands, and Gemma's tens.
LARGEST_ERROR = {"mobilebert": 5e-3, "gemma2": 3e-5}
QUICK = ("gpt2", "vit")
# Of other forms each.
SLOW = ("bert", "llama", "t5", "swin", "roberta", "whisper", "clip", "deberta_v2", "gemma2", "bloom")
COUNTED_SLOWLY = ("t5", "deberta_v2", "bloom")  # of these, before they are fused


def fuse(folder: Path, model: Path, **params: object) -> StageRun:
    return run_stage("optimize/transformer", folder, params, inputs={"model": model})


def mark_by_cost(quick: Sequence[str], slow: Sequence[str]) -> list[ParameterSet]:
    """All families: some are quick, some slow, and the rest rows of a table."""
    others = [family for family in FAMILIES if family not in quick]
    marks = {family: pytest.mark.slow if family in slow else pytest.mark.table for family in others}
    return [pytest.param(family, marks=marks.get(family, ())) for family in FAMILIES]


def fused(run: StageRun) -> dict[str, float]:
    return {name: run.value(f"fused.{name}") for name in COUNTED if run.value(f"fused.{name}")}


@pytest.mark.parametrize("family", mark_by_cost(QUICK, SLOW))
def test_every_attention_of_a_family(tmp_path: Path, exports: Exports, family: str) -> None:
    run = fuse(tmp_path, exports(family), method="rules", expect=EXPECTED[family], dims=FAMILIES[family].dims)
    assert fused(run) == EXPECTED[family]
    assert run.value("attentions") == FAMILIES[family].attentions
    assert run.value("attentions_left") == 0
    assert run.notes == ()
    assert run.value("max_abs_error") < LARGEST_ERROR.get(family, 1e-5)


@pytest.mark.parametrize("family", mark_by_cost(("gpt2",), COUNTED_SLOWLY))
def test_every_attention_is_counted_before_it_is_fused(tmp_path: Path, exports: Exports, family: str) -> None:
    model = exports(family)
    left = fuse(tmp_path, model, method="rules", disable=["attention"], dims=FAMILIES[family].dims)
    assert left.value("attentions") == left.value("attentions_left") == FAMILIES[family].attentions


@pytest.mark.slow  # that of BERT is quick, in test_transformer.py
@pytest.mark.parametrize("family", ["distilbert", "gpt2", "t5"])
def test_eager_attention(tmp_path: Path, exports: Exports, family: str) -> None:
    run = fuse(tmp_path, exports(family, attention="eager"), method="rules")
    assert fused(run) == EXPECTED[family]
    assert run.value("max_abs_error") < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("family", "attention"), [("gpt2", "eager"), ("bert", "sdpa"), ("llama", "eager")])
def test_the_other_exporter(tmp_path: Path, exports: Exports, family: str, attention: str) -> None:
    kind = "gpt2" if family == "gpt2" else "bert"
    run = fuse(tmp_path, exports(family, "dynamo", attention), model_type=kind)
    assert fused(run) == EXPECTED[family]
    assert run.value("max_abs_error") < 1e-5
    assert "method onnxruntime leaves 2 attentions in pieces" in run.log


@pytest.mark.slow
def test_native_attention_is_fused_further(tmp_path: Path, exports: Exports) -> None:
    model = exports("vit", "dynamo", opset=23)
    before = Counter(node.op_type for node in onnx.load(model / "model.onnx").graph.node)
    assert before["Attention"] == 2
    run = fuse(tmp_path, model, method="rules")
    assert fused(run) == EXPECTED["vit"]
    assert run.value("max_abs_error") < 1e-5


@pytest.mark.slow
def test_auto_takes_what_fuses_every_attention(tmp_path: Path, exports: Exports) -> None:
    run = fuse(tmp_path, exports("vit"), expect={"Attention": 2})
    assert "method onnxruntime leaves 2 attentions in pieces" in run.log
    assert "fused by method rules" in run.log


@pytest.mark.slow
def test_projections_may_stay_apart(tmp_path: Path, exports: Exports) -> None:
    run = fuse(tmp_path, exports("gpt2"), method="rules", multi_head_attention=True)
    assert fused(run) == {"MultiHeadAttention": 2, "FastGelu": 2, **LATE}
    assert run.value("max_abs_error") < 1e-5


def test_without_optimizations_before(tmp_path: Path, exports: Exports) -> None:
    run = fuse(tmp_path, exports("vit"), method="rules", level="disable")
    assert fused(run) == EXPECTED["vit"]
    assert run.value("max_abs_error") < 1e-5


@pytest.mark.slow
def test_fusions_are_left_out(tmp_path: Path, exports: Exports) -> None:
    names = ["attention", "rotary_embeddings", "layer_norm"]
    run = fuse(tmp_path, exports("llama"), method="rules", disable=names)
    assert fused(run) == {}
    assert (run.value("attentions"), run.value("attentions_left")) == (2, 2)
    assert [line for line in run.log.splitlines() if line.startswith("in pieces")] == [
        f"in pieces: the attention that yields /model/layers.{layer}/self_attn/MatMul_1_output_0: "
        "`disable` leaves attention out"
        for layer in (0, 1)
    ]
    assert run.notes == ()  # it was asked for


def test_what_is_in_pieces_is_named_when_more_was_expected(tmp_path: Path, exports: Exports) -> None:
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, exports("vit"), method="onnxruntime", model_type="vit", expect={"Attention": 2})
    assert caught.value.problem == "expected 2 Attention, got 0"
    assert str(caught.value.why).splitlines() == [
        "fused by method onnxruntime: BiasGelu 2, LayerNormalization 1, SkipLayerNormalization 4",
        *(
            f"in pieces: the attention that yields /model/layers.{layer}/attention/MatMul_1_output_0: "
            "ONNX Runtime's optimizer does not know its pattern"
            for layer in (0, 1)
        ),
    ]


def fuse_with_cache(folder: Path, exporter: str) -> StageRun:
    """A GPT-2 that begins with no past."""
    past = {f"past_key_values.{layer}.{part}": CACHE for layer in range(2) for part in ("key", "value")}
    text = {"shape": ["batch", "sequence"], "dtype": "int64"}
    mask = {"shape": ["batch", "past + sequence"], "dtype": "int64", "fill": "mask"}
    given_params = {
        "model": "gpt2_step.py:load",
        "inputs": {
            "input_ids": {**text, "high": 999}, "attention_mask": mask, "position_ids": {**text, "high": 63}, **past
        },
        "outputs": ["logits", *(name.replace("past_key_values", "present") for name in past)],
        "exporter": exporter,
        "dims": DIMS,
    }  # fmt: skip
    return fuse(folder, run_stage("convert/torch", folder, given_params, root=MODULES).output, dims=DIMS)


@pytest.mark.slow  # without a past it is quick above
@pytest.mark.parametrize(("exporter", "tables"), [("torchscript", 2), ("dynamo", 1)])
def test_gpt2_with_its_cache(tmp_path: Path, exporter: str, tables: int) -> None:
    """Whether its table of words is stored once is the exporter's doing."""
    run = fuse_with_cache(tmp_path, exporter)
    assert fused(run) == {"MultiHeadAttention": 2, "SkipLayerNormalization": 5, "FastGelu": 2}
    assert (run.value("attentions_left"), run.value("max_abs_error") < 1e-5) == (0, True)
    stored = onnx.load(run.model).graph.initializer
    assert sum(sorted(tensor.dims) == [64, 1000] for tensor in stored) == tables


@pytest.mark.slow
def test_gpt2_with_its_cache_is_quantized(tmp_path: Path) -> None:
    run = fuse_with_cache(tmp_path, "torchscript")
    small = run_stage("quantize/weights", tmp_path, {"dims": DIMS}, inputs={"model": run.output})
    assert small.value("quantized") == 9  # four products in each layer, and the scores
    assert run_stage("quantize/dynamic", tmp_path, {"dims": DIMS}, inputs={"model": run.output}).value("quantized") > 9


@pytest.mark.slow  # small graphs of old sets are quick, in _fusion/test_rules.py
@pytest.mark.parametrize(
    ("family", "opset", "separate"), [("bert", 14, False), ("llama", 17, False), ("bloom", 14, True)]
)
def test_older_operator_sets(tmp_path: Path, exports: Exports, family: str, opset: int, *, separate: bool) -> None:
    """Those have no LayerNormalization before 17, and reductions that take their axes otherwise before 18."""
    run = fuse(tmp_path, exports(family, opset=opset), method="rules")
    assert run.value("attentions_left") == 0
    line = f"operator set {opset} has no LayerNormalization: layer norms stay in pieces"
    assert (line in run.log.splitlines()) == separate
    assert (run.value("fused.SkipLayerNormalization") == 0) == (separate or family == "llama")
    assert run.value("max_abs_error") < 1e-5
