"""Delta debugging on plain numbers: single causes, interactions, several causes, sets that do not go together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from orun.blame.delta_debugging import Outcome, Test, find_causes, minimize

EIGHT = list(range(8))


def needs(*wanted: int) -> Test[int]:
    def test(chosen: Sequence[int]) -> Outcome:
        return "bad" if set(wanted) <= set(chosen) else "good"

    return test


def test_every_cause_is_found_exactly() -> None:
    for cause in (*[(change,) for change in EIGHT], *itertools.combinations(EIGHT, 2), (0, 3, 7)):
        assert tuple(minimize(EIGHT, needs(*cause))) == cause


def test_a_single_cause_takes_few_tests() -> None:
    tests: list[Sequence[int]] = []

    def test(chosen: Sequence[int]) -> Outcome:
        tests.append(chosen)
        return "bad" if 5 in chosen else "good"

    assert minimize(list(range(64)), test) == [5]
    assert len(tests) == 8


def test_two_causes_far_apart_take_few_partial_builds() -> None:
    """What was left out stays out when the rest is taken apart once more."""
    tests: set[tuple[int, ...]] = set()

    def test(chosen: Sequence[int]) -> Outcome:
        tests.add(tuple(chosen))
        return "bad" if {0, 31} <= set(chosen) else "good"

    assert minimize(list(range(32)), test) == [0, 31]
    assert len(tests) == 30


def test_causes_that_do_it_each_by_itself() -> None:
    def test(chosen: Sequence[int]) -> Outcome:
        return "bad" if 2 in chosen or {4, 6} <= set(chosen) else "good"

    assert sorted(map(tuple, find_causes(EIGHT, test))) == [(2,), (4, 6)]


def test_changes_that_go_only_together() -> None:
    def test(chosen: Sequence[int]) -> Outcome:
        if (1 in chosen) != (2 in chosen):
            return "unresolved"
        return "bad" if 2 in chosen else "good"

    assert minimize(EIGHT, test) == [1, 2]


def test_one_change_is_its_own_cause() -> None:
    assert find_causes([3], needs(3)) == [[3]]
