"""The decoder: a small Llama with RANDOM weights, as one step of generation."""

from __future__ import annotations

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

VOCABULARY, LAYERS, HEADS, HEAD_SIZE = 1000, 2, 2, 16  # heads and head size of the keys and values


class Step(torch.nn.Module):
    """A decoder that takes its cache of keys and values as tensors, and returns it so."""

    def __init__(self, decoder: LlamaForCausalLM) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return scores of the next token `[batch, sequence, vocabulary]`, then keys and values layer by layer.

        Args:
            input_ids: new tokens, `[batch, sequence]`.
            attention_mask: 1 where there is text, past or new, `[batch, past + sequence]`.
            position_ids: positions of the new tokens, `[batch, sequence]`.
            past: keys and values of each layer, `[batch, heads, past, head size]`; of length 0 for a prompt.
        """
        result = self.decoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=DynamicCache(list(zip(past[::2], past[1::2], strict=True))),
        )
        cache = (part for layer in result.past_key_values.layers for part in (layer.keys, layer.values))
        return (result.logits, *cache)


def load() -> Step:
    """Return the decoder.

    YOUR WEIGHTS GO HERE: replace the last two statements by
    `LlamaForCausalLM.from_pretrained("folder", attn_implementation="eager")`, set the numbers above to those of its
    config.json, and list a key and a value for each layer in language-model.yaml.
    """
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=HEADS,
        max_position_embeddings=256,
        attn_implementation="eager",
    )
    return Step(LlamaForCausalLM(config).eval())
