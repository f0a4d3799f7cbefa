"""Files with random mistakes are taken or refused."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.corpora import CORPORA
from benchmarks.mutations import REFUSED, TAKEN, outcomes


@pytest.mark.parametrize("name", CORPORA)
def test_a_mistake_is_no_bug(name: str) -> None:
    found = Counter(outcome.outcome for outcome in outcomes(name, 60, seed=1))
    assert set(found) <= {TAKEN, REFUSED}
    assert found[REFUSED] > 0
