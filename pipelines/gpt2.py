"""A small GPT-2 with made-up weights, as one module from tokens to the scores of the next."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel


class Scores(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A language model that returns its scores and no cache."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Scores of the token after each, `[batch, sequence, 1000]` float32.

        Args:
            input_ids: tokens, `[batch, sequence]` int64 in 0..999.
            attention_mask: 1 where there is text, 0 where there is padding, `[batch, sequence]` int64.
        """
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def load() -> Scores:
    """Four layers of width 128; the weights follow the seed of PyTorch, which orun sets."""
    config = GPT2Config(
        vocab_size=1000, n_embd=128, n_layer=4, n_head=4, n_positions=256, bos_token_id=0, eos_token_id=1
    )
    return Scores(GPT2LMHeadModel(config))
