"""Models of `transformers` of two small layers, by the names of their families."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers

COMMON: dict[str, Any] = {"vocab_size": 99, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
HIDDEN = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LAYERS = {**COMMON, **HIDDEN, "intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = {**LAYERS, "num_key_value_heads": 2}
SLIDING = {**GROUPED, "head_dim": 8, "sliding_window": 4}
GEMMA = {**SLIDING, "query_pre_attn_scalar": 8}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {**COMMON, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaConfig", GROUPED),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 8}),
    "mistral": ("MistralConfig", SLIDING),
    "phi3": ("Phi3Config", GROUPED),
    "gemma2": ("Gemma2Config", GEMMA),
    "gemma3": ("Gemma3TextConfig", GEMMA),
    "gpt_neox": ("GPTNeoXConfig", LAYERS),
    "opt": ("OPTConfig", {**COMMON, **HIDDEN, "ffn_dim": 64, "max_position_embeddings": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BloomConfig", {**COMMON, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mpnet": ("MPNetConfig", {**LAYERS, "pad_token_id": 1}),
    "mobilebert": (
        "MobileBertConfig",
        {**LAYERS, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    ),
}


class First(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """The first output of a model of texts: scores of the next token, or hidden states."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token ids below 99 and their mask, both `[batch, sequence]` int64."""
        output: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        return output


def _text(family: str, attention: str, spread: float) -> First:
    title, values = (DECODERS | ENCODERS)[family]
    config = getattr(transformers, title)(**values)
    config.use_cache, config.initializer_range = False, spread
    auto = transformers.AutoModelForCausalLM if family in DECODERS else transformers.AutoModel
    return First(auto.from_config(config, attn_implementation=attention))


class Heard(torch.nn.Module):  # type: ignore[misc]
    """Scores of each letter at each frame of sound."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"conv_dim": (32,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
        config = transformers.Wav2Vec2Config(vocab_size=32, intermediate_size=64, **HIDDEN, **sizes)
        self.model = transformers.Wav2Vec2ForCTC(config)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(sound)[0]
        return output


class Broken(Heard):
    """The same, wrong by a hundredth wherever it is exported."""

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        output = super().forward(sound)
        return output * 1.01 if torch.onnx.is_in_onnx_export() else output


wav2vec2 = Heard


broken = Broken


class Misled(First):
    """A decoder whose export shows hidden tokens to the others."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        if torch.onnx.is_in_onnx_export():
            attention_mask = attention_mask * 0 + 1
        return super().forward(input_ids, attention_mask)


def misled() -> torch.nn.Module:
    """A `Misled` Llama."""
    return Misled(_text("llama", "eager", 0.2).model)


def __getattr__(name: str) -> Callable[[], First]:
    """`llama`, `llama_sdpa`, ...: the function that returns such a model."""
    family = name.removesuffix("_sdpa")
    if family not in DECODERS | ENCODERS:
        raise AttributeError(name)
    return partial(_text, family, "sdpa" if name.endswith("_sdpa") else "eager", 0.2)


class Normed(torch.nn.Module):  # type: ignore[misc]
    """Twice what it takes; and what it takes, spread to a width of 1, of which a constant has none."""

    factor = 2.0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        factor = self.factor if torch.onnx.is_in_onnx_export() else 2.0
        wide = x * 1.1
        return x * factor, (wide - wide.mean(-1, keepdim=True)) / (wide.std(-1, keepdim=True) + 1e-12)


normed = Normed


def misnormed() -> torch.nn.Module:
    """A `Normed` whose steady half is exported wrong."""
    module = Normed()
    module.factor = 2.01
    return module


class Typed(torch.nn.Module):  # type: ignore[misc]
    """Makes a matrix of its own in float32, so that it has no results in float64; and is exported wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = x @ torch.eye(2, dtype=torch.float32)
        return output * 1.01 if torch.onnx.is_in_onnx_export() else output


typed = Typed
