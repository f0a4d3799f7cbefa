"""Counts of things in words."""

from __future__ import annotations

from orun.text.counts import count


def test_a_count_has_its_noun_in_the_singular_or_the_plural() -> None:
    assert (count(0, "stage"), count(1, "stage"), count(2, "stage")) == ("0 stages", "1 stage", "2 stages")
