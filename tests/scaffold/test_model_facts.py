"""Facts about models."""

from __future__ import annotations

import pytest

from orun.scaffold.inspection import parse_inputs


@pytest.mark.parametrize(
    ("declared", "fill"),
    [
        ("attention_mask=int64[batch,sequence]", "right-padded"),
        ("mask=int32[batch,sequence]", "right-padded"),
        ("input_mask=int64[batch,sequence]", "right-padded"),
        ("attention_mask=int64[batch,1,sequence,sequence]", "right-padded"),
        ("mask=bool[batch,sequence]", "random"),  # which PyTorch reads the other way round
        ("pixel_mask=int64[batch,height,width]", "random"),
        ("masked=int64[batch,sequence]", "random"),
    ],
)
def test_integers_that_are_named_a_mask_of_tokens_are_one(declared: str, fill: str) -> None:
    (item,) = parse_inputs([declared])
    assert item.fill == fill
