"""Families of transformers, each as a small seeded model of two layers, mostly of four heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import transformers

VOCABULARY = 100
LENGTH = 40  # positions that a text may have
IDS: Mapping[str, Any] = {"shape": ["batch", "sequence"], "dtype": "int64", "high": VOCABULARY - 1}
MASK: Mapping[str, Any] = {"shape": ["batch", "sequence"], "dtype": "int64", "fill": "mask"}
TEXT: Mapping[str, Mapping[str, Any]] = {"input_ids": IDS, "attention_mask": MASK}
PADDED: Mapping[str, Mapping[str, Any]] = {"input_ids": IDS, "attention_mask": {**MASK, "fill": "right-padded"}}
TWO_TEXTS: Mapping[str, Mapping[str, Any]] = {**TEXT, "decoder_input_ids": {**IDS, "shape": ["batch", "target"]}}
IMAGE: Mapping[str, Mapping[str, Any]] = {"pixel_values": {"shape": ["batch", 3, 32, 32]}}
LAYERS: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
ENCODER: Mapping[str, Any] = {**LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": LENGTH}
GROUPED: Mapping[str, Any] = {**ENCODER, "num_key_value_heads": 2}
PICTURE: Mapping[str, Any] = {"image_size": 32, "patch_size": 8}
SPECIAL: Mapping[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
UNPOOLED: Mapping[str, Any] = {"add_pooling_layer": False}
UNCACHED: Mapping[str, Any] = {"use_cache": False}
HIDDEN = ("last_hidden_state",)
BOTH = ("eager", "sdpa")
EAGER = ("eager",)


class Outputs(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A model of `transformers` that returns only the named outputs."""

    def __init__(self, model: torch.nn.Module, outputs: Sequence[str], fixed: Mapping[str, Any]) -> None:
        super().__init__()
        self.model, self.outputs, self.fixed = _randomized(model), outputs, fixed

    def _run(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.model(**inputs, **self.fixed)
        return tuple(getattr(outputs, name) for name in self.outputs)


class OfText(Outputs):
    """A model of token ids and their mask, both `[batch, sequence]` int64."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the model on texts."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask)


class OfImages(Outputs):
    """A model of images `[batch, 3, 32, 32]`."""

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the model on images."""
        return self._run(pixel_values=pixel_values)


class OfSpeech(Outputs):
    """A model of spectrograms `[batch, 8, 32]`."""

    def forward(self, input_features: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the model on spectrograms."""
        return self._run(input_features=input_features)


class OfSound(Outputs):
    """A model of waveforms `[batch, samples]`."""

    def forward(self, input_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the model on waveforms."""
        return self._run(input_values=input_values)


class OfTwoTexts(Outputs):
    """A model of token ids and their mask, `[batch, sequence]`, and the ids of the output so far, `[batch, target]`."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Run the model on texts and the output so far."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids)


class OfTextsAndImages(Outputs):
    """A model of token ids and their mask, both `[texts, sequence]`, and images `[images, 3, 32, 32]`."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, pixel_values: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Run the model on texts and images."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)


def _randomized(model: torch.nn.Module) -> torch.nn.Module:
    """Set weights that make attention far from uniform, and biases that no simplifier takes for zero."""
    torch.manual_seed(0)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=1.5 * weight.shape[-1] ** -0.5)
        else:
            torch.nn.init.normal_(weight, mean=1.0, std=0.1)
    return model


@dataclass(frozen=True)
class Family:
    """A family of models: classes in `transformers`, configuration, and parameters of `convert/torch`.

    Attributes:
        name: prefix of the names of its classes.
        config: fields of its configuration.
        inputs: parameter of `convert/torch`.
        wrapper: module that takes these inputs.
        outputs: names of the outputs to export.
        attentions: number of attentions that the model computes.
        model: class of the model; the family's name and `Model` when empty.
        configuration: class of the configuration; the family's name and `Config` when empty.
        part: attribute of the model to export; the whole model when empty.
        options: options of the model's constructor.
        fixed: options of the model's `forward`.
        implementations: implementations of its attention.
        dims: sizes to try for dynamic axes.
    """

    name: str
    config: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: TEXT)
    wrapper: type[Outputs] = OfText
    outputs: tuple[str, ...] = HIDDEN
    attentions: int = 2
    model: str = ""
    configuration: str = ""
    part: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    implementations: tuple[str, ...] = BOTH
    dims: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def build(self, attention: str) -> Outputs:
        """Return the family's model with this implementation of attention."""
        config = getattr(transformers, self.configuration or f"{self.name}Config")
        model = getattr(transformers, self.model or f"{self.name}Model")
        module = model(config(**self.config, attn_implementation=attention), **self.options)
        return self.wrapper(getattr(module, self.part) if self.part else module, self.outputs, self.fixed)


_TEXTS = ["texts", "sequence"]
_TEXTS_AND_IMAGES = {
    "input_ids": {**IDS, "shape": _TEXTS},
    "attention_mask": {**MASK, "shape": _TEXTS},
    "pixel_values": {"shape": ["images", 3, 32, 32]},
}
FAMILIES: Mapping[str, Family] = {
    "bert": Family("Bert", ENCODER, options=UNPOOLED),
    "roberta": Family("Roberta", ENCODER, options=UNPOOLED),
    "distilbert": Family(
        "DistilBert",
        {
            "vocab_size": VOCABULARY,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 64,
            "max_position_embeddings": LENGTH,
        },
    ),
    "gpt2": Family(
        "GPT2",
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LENGTH, **SPECIAL},
        outputs=("logits",),
        model="GPT2LMHeadModel",
        fixed=UNCACHED,
    ),
    "llama": Family("Llama", GROUPED, fixed=UNCACHED),
    "vit": Family("ViT", {**LAYERS, **PICTURE}, IMAGE, OfImages, options=UNPOOLED),
    "whisper": Family(
        "Whisper",
        {
            "vocab_size": VOCABULARY,
            "num_mel_bins": 8,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_source_positions": 16,
            "pad_token_id": 0,
            "decoder_start_token_id": 1,
            **SPECIAL,
        },
        {"input_features": {"shape": ["batch", 8, 32]}},
        OfSpeech,
        part="encoder",
    ),
    "t5": Family(
        "T5",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
        TWO_TEXTS,
        OfTwoTexts,
        ("logits",),
        6,
        model="T5ForConditionalGeneration",
        fixed=UNCACHED,
    ),
    "clip": Family(
        "CLIP",
        {
            "text_config": {**ENCODER, "pad_token_id": 0, **SPECIAL},
            "vision_config": {**LAYERS, **PICTURE},
            "projection_dim": 32,
        },
        _TEXTS_AND_IMAGES,
        OfTextsAndImages,
        ("text_embeds", "image_embeds"),
        4,
    ),
    "albert": Family("Albert", {**ENCODER, "embedding_size": 16}, options=UNPOOLED),
    "electra": Family("Electra", {**ENCODER, "embedding_size": 16}),
    "mpnet": Family("MPNet", {**ENCODER, "pad_token_id": 1}, options=UNPOOLED, implementations=EAGER),
    "mobilebert": Family(
        "MobileBert",
        {**ENCODER, "embedding_size": 16, "intra_bottleneck_size": 32, "num_feedforward_networks": 2},
        options=UNPOOLED,
    ),
    "modernbert": Family(
        "ModernBert", {**ENCODER, "global_attn_every_n_layers": 2, "local_attention": 8, "pad_token_id": 0, **SPECIAL}
    ),
    "deberta": Family(
        "Deberta",
        {**ENCODER, "relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False},
        implementations=EAGER,
    ),
    "deberta_v2": Family(
        "DebertaV2",
        {
            **ENCODER,
            "relative_attention": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
            "position_buckets": 8,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
        implementations=EAGER,
    ),
    "swin": Family(
        "Swin",
        {"image_size": 32, "patch_size": 4, "embed_dim": 32, "depths": [2], "num_heads": [4], "window_size": 4},
        IMAGE,
        OfImages,
        options=UNPOOLED,
    ),
    "segformer": Family(
        "Segformer",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [2, 4],
            "mlp_ratios": [2, 2],
        },
        IMAGE,
        OfImages,
    ),
    "wav2vec2": Family(
        "Wav2Vec2",
        {
            **LAYERS,
            "vocab_size": VOCABULARY,
            "conv_dim": [16, 16],
            "conv_kernel": [10, 3],
            "conv_stride": [5, 2],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4,
        },
        {"input_values": {"shape": ["batch", "samples"]}},
        OfSound,
        dims={"samples": [320, 400]},
    ),
    "bart": Family(
        "Bart",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": LENGTH,
            "pad_token_id": 0,
            "decoder_start_token_id": 1,
            "forced_eos_token_id": 2,
            **SPECIAL,
        },
        TWO_TEXTS,
        OfTwoTexts,
        attentions=6,
        fixed=UNCACHED,
    ),
    "qwen3": Family("Qwen3", {**GROUPED, "head_dim": 8}, PADDED, fixed=UNCACHED),
    "mistral": Family("Mistral", {**GROUPED, "sliding_window": 4}, PADDED, fixed=UNCACHED),
    "phi3": Family("Phi3", {**GROUPED, "pad_token_id": 0, **SPECIAL}, PADDED, fixed=UNCACHED),
    "gemma2": Family(
        "Gemma2",
        {
            **GROUPED,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": 4,
            "attn_logit_softcapping": 3.0,
        },
        PADDED,
        fixed=UNCACHED,
        implementations=EAGER,
    ),
    "gemma3": Family(
        "Gemma3Text",
        {**GROUPED, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4},
        PADDED,
        fixed=UNCACHED,
    ),
    "gpt_neox": Family("GPTNeoX", ENCODER, PADDED, fixed=UNCACHED),
    "opt": Family(
        "OPT",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "word_embed_proj_dim": 32,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": LENGTH,
        },
        PADDED,
        fixed=UNCACHED,
    ),
    "bloom": Family(
        "Bloom",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4, **SPECIAL},
        PADDED,
        fixed=UNCACHED,
        implementations=EAGER,
    ),
}


def _builder(family: str, attention: str) -> Callable[[], Outputs]:
    return partial(FAMILIES[family].build, attention)


# Functions for `convert/torch`: `families.py:bert`, and `bert_eager` with attention as separate matrix products.
globals().update(
    {
        family + ("_eager" if attention == "eager" else ""): _builder(family, attention)
        for family, known in FAMILIES.items()
        for attention in known.implementations
    }
)


def export(family: str, exporter: str, attention: str, opset: int = 20) -> dict[str, Any]:
    """Return the parameters of `convert/torch`; code is relative to this folder."""
    known = FAMILIES[family]
    return {
        "model": f"families.py:{family}" + ("_eager" if attention == "eager" else ""),
        "inputs": known.inputs,
        "outputs": list(known.outputs),
        "exporter": exporter,
        "opset": opset,
        "dims": known.dims,
    }
