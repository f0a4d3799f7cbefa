"""A small llama with made-up weights, as a step of generation: tokens and what is known of those before, in and out."""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import orun

LAYERS, HEADS, SIZE = 2, 2, 16  # heads and the size of one are those of keys and values
PROMPT, STEPS, TEXTS = 12, 6, 4


class Step(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A decoder that is given its cache as tensors, and returns it so."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Scores of the token after each, `[batch, sequence, 1000]`, then all keys and values, layer by layer.

        Args:
            input_ids: new tokens, `[batch, sequence]` int64 in 0..999.
            attention_mask: 1 where there is text, past or new, `[batch, past + sequence]` int64.
            position_ids: where the new tokens stand, `[batch, sequence]` int64.
            past: keys and values of each layer, `[batch, 2, past, 16]`; of no length at the beginning.
        """
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache
        )
        kept = (part for layer in found.past_key_values.layers for part in (layer.keys, layer.values))
        return (found.logits, *kept)


def load() -> Step:
    """Two layers of width 64; the weights are the same each time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=HEADS,
        max_position_embeddings=256,
        attn_implementation="eager",
    )
    return Step(LlamaForCausalLM(config).eval())


def steps() -> orun.Dataset:
    """What PyTorch's model is given while it generates, token by token: a prompt first, then one at a time."""
    step = load()
    examples: list[dict[str, np.ndarray]] = []
    for prompt in np.random.default_rng(0).integers(0, 1000, (TEXTS, PROMPT)):
        tokens, past = torch.tensor(prompt[None]), [torch.zeros(1, HEADS, 0, SIZE)] * (2 * LAYERS)
        for _ in range(STEPS):
            known, new = past[0].shape[2], tokens.shape[1]
            positions = torch.arange(known, known + new)[None]
            given = (tokens, torch.ones(1, known + new, dtype=torch.int64), positions, *past)
            examples.append({name: value[0].numpy() for name, value in zip(names(), given, strict=True)})
            with torch.inference_mode():
                logits, *past = step(*given)
            tokens = logits[:, -1:].argmax(-1)
    return orun.Dataset({name: [example[name] for example in examples] for name in names()})


def names() -> list[str]:
    """Names of the inputs, as the pipeline has them."""
    past = [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    return ["input_ids", "attention_mask", "position_ids", *past]
