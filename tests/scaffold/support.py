"""Files beside a model in a folder of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def save_tokenizer(folder: Path, names: Sequence[str], limit: int | None = None) -> None:
    """Save a tokenizer that makes the inputs of these names, with a limit of tokens or none."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"good": 0}))
    limits = {"model_max_length": limit} if limit else {}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=[*names], **limits).save_pretrained(folder)
