"""A small T5 with made-up weights, as one module from a text and its translation so far to the scores of the next."""

from __future__ import annotations

import torch
from transformers import T5Config, T5ForConditionalGeneration


class Scores(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """An encoder and a decoder that return scores and no cache."""

    def __init__(self, model: T5ForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> torch.Tensor:
        """Scores of the token after each of the translation, `[batch, target, 1000]` float32.

        Args:
            input_ids: tokens of the text, `[batch, sequence]` int64 in 0..999.
            attention_mask: 1 where there is text, 0 where there is padding, `[batch, sequence]` int64.
            decoder_input_ids: tokens of the translation, `[batch, target]` int64 in 0..999.
        """
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids, use_cache=False
        ).logits


def load() -> Scores:
    """Two layers of encoder and two of decoder, of width 128; the weights follow the seed of PyTorch."""
    config = T5Config(
        vocab_size=1000, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return Scores(T5ForConditionalGeneration(config))
