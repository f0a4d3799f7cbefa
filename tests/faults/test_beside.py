"""Processes side by side on one cold store run each stage once in all, and all of them end well."""

from __future__ import annotations

from tests.faults import beside
from tests.faults.rig import Judgement, Rig


def test_four_processes_with_two_pipelines(apart: Rig) -> None:
    assert beside.trial(apart, 4, variants=2) == Judgement("survived")
