"""Pipeline files with random mistakes are loaded or refused."""

from __future__ import annotations

from collections import Counter

from benchmarks.mutations import LOADED, REFUSED, outcomes


def test_a_mistake_is_no_bug() -> None:
    found = Counter(outcome for _, outcome in outcomes(250, seed=1))
    assert set(found) == {LOADED, REFUSED}
    assert found[REFUSED] > found[LOADED]
