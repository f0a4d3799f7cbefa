"""Nine families of transformers, each as a small model of two layers and four heads with made-up weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers

VOCABULARY = 100
LENGTH = 40  # positions that a text may have
IDS: Mapping[str, Any] = {"shape": ["batch", "sequence"], "dtype": "int64", "high": VOCABULARY - 1}
MASK: Mapping[str, Any] = {"shape": ["batch", "sequence"], "dtype": "int64", "fill": "mask"}
TEXT: Mapping[str, Mapping[str, Any]] = {"input_ids": IDS, "attention_mask": MASK}
IMAGE = {"pixel_values": {"shape": ["batch", 3, 32, 32]}}
ENCODER: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": LENGTH,
}
PICTURE = {"image_size": 32, "patch_size": 8}
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2}


class Outputs(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A model of `transformers` that returns nothing but the outputs that are asked for."""

    def __init__(self, model: torch.nn.Module, outputs: Sequence[str], **fixed: Any) -> None:
        super().__init__()
        self.model, self.outputs, self.fixed = _randomized(model), outputs, fixed

    def _run(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**inputs, **self.fixed)
        return tuple(getattr(found, name) for name in self.outputs)


class OfText(Outputs):
    """Ids and their mask, both `[batch, sequence]` int64."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the model makes of a text."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask)


class OfImages(Outputs):
    """Images `[batch, 3, 32, 32]`."""

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the model makes of an image."""
        return self._run(pixel_values=pixel_values)


class OfSpeech(Outputs):
    """Spectrograms `[batch, 8, 32]`."""

    def forward(self, input_features: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the model makes of a sound."""
        return self._run(input_features=input_features)


class OfTwoTexts(Outputs):
    """Ids and their mask, `[batch, sequence]`, and the ids so far of their translation, `[batch, target]`."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """What the model makes of a text and what it has translated of it."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids)


class OfTextsAndImages(Outputs):
    """Ids and their mask, both `[texts, sequence]`, and images `[images, 3, 32, 32]`."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, pixel_values: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """What the model makes of texts and images."""
        return self._run(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values)


def _randomized(model: torch.nn.Module) -> torch.nn.Module:
    """Weights with which attention is far from uniform, and biases that no simplifier takes for zero."""
    torch.manual_seed(0)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=1.5 * weight.shape[-1] ** -0.5)
        else:
            torch.nn.init.normal_(weight, mean=1.0, std=0.1)
    return model


def bert(attention: str = "sdpa") -> OfText:
    """BERT's encoder."""
    config = transformers.BertConfig(**ENCODER, attn_implementation=attention)
    return OfText(transformers.BertModel(config, add_pooling_layer=False), ["last_hidden_state"])


def roberta(attention: str = "sdpa") -> OfText:
    """RoBERTa's encoder, whose positions follow its ids."""
    config = transformers.RobertaConfig(**ENCODER, attn_implementation=attention)
    return OfText(transformers.RobertaModel(config, add_pooling_layer=False), ["last_hidden_state"])


def distilbert(attention: str = "sdpa") -> OfText:
    """DistilBERT, which has no segments."""
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=LENGTH,
        attn_implementation=attention,
    )
    return OfText(transformers.DistilBertModel(config), ["last_hidden_state"])


def gpt2(attention: str = "sdpa") -> OfText:
    """GPT-2 with its language head, without a cache."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=LENGTH,
        **SPECIAL,
        attn_implementation=attention,
    )
    return OfText(transformers.GPT2LMHeadModel(config), ["logits"], use_cache=False)


def llama(attention: str = "sdpa") -> OfText:
    """A Llama with two heads of keys and values for four of queries, without a cache."""
    config = transformers.LlamaConfig(**ENCODER, num_key_value_heads=2, attn_implementation=attention)
    return OfText(transformers.LlamaModel(config), ["last_hidden_state"], use_cache=False)


def vit(attention: str = "sdpa") -> OfImages:
    """ViT's encoder."""
    layers = {name: ENCODER[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    config = transformers.ViTConfig(**layers, **PICTURE, intermediate_size=64, attn_implementation=attention)
    return OfImages(transformers.ViTModel(config, add_pooling_layer=False), ["last_hidden_state"])


def whisper(attention: str = "sdpa") -> OfSpeech:
    """Whisper's encoder."""
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=16,
        pad_token_id=0,
        decoder_start_token_id=1,
        **SPECIAL,
        attn_implementation=attention,
    )
    return OfSpeech(transformers.WhisperModel(config).encoder, ["last_hidden_state"])


def t5(attention: str = "sdpa") -> OfTwoTexts:
    """T5, two layers of encoder and two of decoder, without a cache."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        attn_implementation=attention,
    )
    return OfTwoTexts(transformers.T5ForConditionalGeneration(config), ["logits"], use_cache=False)


def clip(attention: str = "sdpa") -> OfTextsAndImages:
    """CLIP, two layers for texts and two for images."""
    layers = {name: ENCODER[name] for name in ENCODER if name not in ("vocab_size", "max_position_embeddings")}
    texts = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, "pad_token_id": 0, **SPECIAL}
    config = transformers.CLIPConfig(
        text_config={**layers, **texts},
        vision_config={**layers, **PICTURE},
        projection_dim=32,
        attn_implementation=attention,
    )
    return OfTextsAndImages(transformers.CLIPModel(config), ["text_embeds", "image_embeds"])


# With attention spelled out in matrix products, as functions that take nothing.
bert_eager = partial(bert, "eager")
roberta_eager = partial(roberta, "eager")
distilbert_eager = partial(distilbert, "eager")
gpt2_eager = partial(gpt2, "eager")
llama_eager = partial(llama, "eager")
vit_eager = partial(vit, "eager")
whisper_eager = partial(whisper, "eager")
t5_eager = partial(t5, "eager")
clip_eager = partial(clip, "eager")


@dataclass(frozen=True)
class Family:
    """What `convert/torch` needs to be told of a family, and how many attentions its model has."""

    inputs: Mapping[str, Mapping[str, Any]]
    outputs: tuple[str, ...] = ("last_hidden_state",)
    attentions: int = 2


_TEXTS = ["texts", "sequence"]
FAMILIES: Mapping[str, Family] = {
    "bert": Family(TEXT),
    "roberta": Family(TEXT),
    "distilbert": Family(TEXT),
    "gpt2": Family(TEXT, ("logits",)),
    "llama": Family(TEXT),
    "vit": Family(IMAGE),
    "whisper": Family({"input_features": {"shape": ["batch", 8, 32]}}),
    "t5": Family({**TEXT, "decoder_input_ids": {**IDS, "shape": ["batch", "target"]}}, ("logits",), 6),
    "clip": Family(
        {
            "input_ids": {**IDS, "shape": _TEXTS},
            "attention_mask": {**MASK, "shape": _TEXTS},
            "pixel_values": {"shape": ["images", 3, 32, 32]},
        },
        ("text_embeds", "image_embeds"),
        4,
    ),
}


def export(family: str, exporter: str, attention: str, opset: int = 20) -> dict[str, Any]:
    """Parameters of `convert/torch`, whose code is relative to this folder."""
    known = FAMILIES[family]
    return {
        "model": f"families.py:{family}" + ("_eager" if attention == "eager" else ""),
        "inputs": known.inputs,
        "outputs": list(known.outputs),
        "exporter": exporter,
        "opset": opset,
    }
