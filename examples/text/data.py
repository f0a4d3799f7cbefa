"""The data: 40 questions to a bicycle shop with their answers, in questions.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model import FOLDER
from transformers import AutoTokenizer

import orun

TABLE = Path(__file__).with_name("questions.csv")
TOKENS = 64  # the first tokens of a text
PADDING = 16  # lengths are multiples of this, so that a model which ignores its mask is noticed


def questions() -> orun.Dataset:
    """Return each question, with the number of the right one among all answers."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return orun.Dataset(
        encode([row["question"] for row in rows]),
        labels=np.arange(len(rows)),
        candidates=encode([row["answer"] for row in rows]),
    )


def encode(texts: Sequence[str]) -> dict[str, list[np.ndarray]]:
    """Return the inputs of the model, each text as long as it is."""
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    encoded = [
        tokenizer(text, truncation=True, max_length=TOKENS, padding=True, pad_to_multiple_of=PADDING) for text in texts
    ]
    return {name: [np.array(item[name], np.int64) for item in encoded] for name in ("input_ids", "attention_mask")}
