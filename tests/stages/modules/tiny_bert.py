"""A BERT of two small layers with made-up weights, for tests that need real attention."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel


class LastHidden(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """The last hidden state, `[batch, sequence, 32]`."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token ids below 100 and their mask, both `[batch, sequence]` int64."""
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def load() -> LastHidden:
    """The module; its weights follow the seed of PyTorch."""
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    bert = BertModel(config, add_pooling_layer=False)
    for name, weight in bert.named_parameters():
        if name.endswith("bias"):  # made as zeros, which a simplifier removes and with them what fusions look for
            torch.nn.init.normal_(weight, std=0.1)
    return LastHidden(bert)
