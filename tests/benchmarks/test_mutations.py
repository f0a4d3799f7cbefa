"""Files with random mistakes are taken or refused."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.corpora import CORPORA
from benchmarks.mutations import REFUSED, TAKEN, outcomes
from tests.thin import mostly_slow

CASES = [(name, count) for name in CORPORA for count in (12, 60)]


@pytest.mark.parametrize(("name", "count"), mostly_slow(CASES, *((name, 12) for name in CORPORA)))
def test_a_mistake_is_no_bug(name: str, count: int) -> None:
    counts = Counter(outcome.outcome for outcome in outcomes(name, count, seed=1))
    assert set(counts) <= {TAKEN, REFUSED}
    assert counts[REFUSED] > 0
