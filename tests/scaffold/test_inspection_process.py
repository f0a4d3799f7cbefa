"""Inspection in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.scaffold.inspection_process import declare_data
from orun.scaffold.model_facts import ColumnFact, ModelFacts


def test_an_estimator_of_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its facts are more than an argument of a command can hold."""
    monkeypatch.chdir(tmp_path)
    names = [f"reading_of_the_sensor_in_the_upper_left_corner_{number}" for number in range(2500)]
    Path("table.csv").write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")
    facts = ModelFacts("sklearn", "wide.joblib", columns=tuple(ColumnFact(name) for name in names))
    assert declare_data("table.csv", tmp_path, facts) == "table.csv"
