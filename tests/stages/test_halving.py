from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest

from orun.stages.halving import find_needed

ITEMS = [str(number) for number in range(64)]


@pytest.mark.parametrize("wanted", [[], ["0"], ["63"], ["17"], ["17", "18"], ["0", "31", "63"], ITEMS])
def test_exactly_what_is_needed_stays(wanted: list[str]) -> None:
    tries = 0

    def good(staying: Collection[str]) -> bool:
        nonlocal tries
        tries += 1
        return set(wanted) <= set(staying)

    assert find_needed(ITEMS, good) == wanted
    assert tries <= max(1, 2 * len(wanted) * 6 + 1)


def test_every_pair_among_a_few() -> None:
    few = ITEMS[:7]
    for pair in itertools.combinations(few, 2):
        assert find_needed(few, lambda staying, pair=pair: set(pair) <= set(staying)) == list(pair)  # type: ignore[misc]


def test_nothing_to_choose_from() -> None:
    assert find_needed([], lambda _: True) == []
