"""The data: steps of generation, as PyTorch's model takes them: a prompt first, then token by token."""

from __future__ import annotations

import numpy as np
import torch
from model import HEAD_SIZE, HEADS, LAYERS, VOCABULARY, load

import orun

PROMPTS, LENGTH, STEPS = 4, 12, 6
PAST = [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
NAMES = ["input_ids", "attention_mask", "position_ids", *PAST]  # of the inputs, as in language-model.yaml


def steps() -> orun.Dataset:
    """Return the inputs of every step.

    The prompts are random tokens. With your own weights, use the tokens of typical texts.
    """
    decoder = load()
    examples: list[tuple[np.ndarray, ...]] = []
    for prompt in np.random.default_rng(0).integers(0, VOCABULARY, (PROMPTS, LENGTH)):
        tokens, past = torch.tensor(prompt[None]), [torch.zeros(1, HEADS, 0, HEAD_SIZE)] * len(PAST)
        for _ in range(STEPS):
            known, new = past[0].shape[2], tokens.shape[1]
            positions = torch.arange(known, known + new)[None]
            values = (tokens, torch.ones(1, known + new, dtype=torch.int64), positions, *past)
            examples.append(tuple(value[0].numpy() for value in values))
            with torch.inference_mode():
                scores, *past = decoder(*values)
            tokens = scores[:, -1:].argmax(-1)
    return orun.Dataset({name: [example[place] for example in examples] for place, name in enumerate(NAMES)})
