"""Processes side by side on one cold store run each stage once in all, and all of them end well."""

from __future__ import annotations

import pytest

from tests.faults import concurrent_runs
from tests.faults.rig import Judgement, Rig


@pytest.mark.slow  # stages that processes share are quick, in tests/store/test_processes.py
@pytest.mark.parametrize(("count", "variants"), [(2, 1), (8, 2)])
def test_processes_with_pipelines_that_are_the_same_or_overlap(text: Rig, count: int, variants: int) -> None:
    assert concurrent_runs.trial(text, count, variants) == Judgement("survived")
