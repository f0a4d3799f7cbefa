"""Processes side by side on one cold store run each stage once in all, and all of them end well."""

from __future__ import annotations

import pytest

from tests.faults import concurrent_runs
from tests.faults.rig import Judgement, Rig
from tests.thin import mostly_slow


@pytest.mark.parametrize(("count", "variants"), mostly_slow([(2, 1), (8, 2)], (2, 1)))
def test_processes_with_pipelines_that_are_the_same_or_overlap(text: Rig, count: int, variants: int) -> None:
    assert concurrent_runs.trial(text, count, variants) == Judgement("survived")
