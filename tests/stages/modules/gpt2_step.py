"""A GPT-2 of two layers as a step of generation: tokens, and keys and values of those before, in and out."""

from __future__ import annotations

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel


class Step(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A decoder that is given its cache as tensors, and returns it so."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Scores of the token after each, then all keys and values, layer by layer."""
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache
        )
        kept = (part for layer in output.past_key_values.layers for part in (layer.keys, layer.values))
        return (output.logits, *kept)


def load() -> Step:
    """Four heads of size 16; the table of words is the last product as well."""
    config = GPT2Config(
        vocab_size=1000, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    return Step(GPT2LMHeadModel(config))
