"""Gates that did not pass, alone and in groups."""

from __future__ import annotations

from orun.core.open_gates import list_failed_gates, list_open_gates
from orun.core.serialization import replace
from tests.report.support import SLOWER


def test_members_are_left_out_below_a_group_that_passed_alone() -> None:
    """Of one that passed within a group that did not its own members."""
    passed = replace(SLOWER, metric="any of 2", rule="any", threshold="", outcome="passed", fails=False)
    failed = replace(passed, metric="all of 2", rule="all", outcome="failed", fails=True)
    member, inner = replace(SLOWER, depth=1), replace(SLOWER, depth=2)
    within = replace(passed, depth=1)
    assert list_open_gates([passed, member, failed, member]) == [failed, member]
    assert list_open_gates([failed, within, inner, member]) == [failed, member]
    assert list_open_gates([passed, member, SLOWER]) == [SLOWER]
    unsure = replace(failed, outcome="undecided")
    assert list_failed_gates([unsure, member, passed, member]) == [member]
