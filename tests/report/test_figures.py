"""Figures as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.report.figures import format_age, format_headline
from orun.text.suggestions import show_path


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"),
        (59.9, "just now"),
        (60, "1 minute ago"),
        (3599, "59 minutes ago"),
        (3600, "1 hour ago"),
        (86399, "23 hours ago"),
        (200_000, "2 days ago"),
        (-5, "just now"),
    ],
)
def test_ages(seconds: float, expected: str) -> None:
    assert format_age(seconds) == expected


def test_metrics_with_a_gate_are_told_first() -> None:
    metrics = {"size": Metric(1e6, "B"), "c": Metric(3), "a": Metric(1), "b": Metric(2), "d": Metric(4)}
    assert format_headline(metrics, ()) == "a 1, b 2, c 3"
    assert format_headline(metrics, ["size", "d", "d", "gone"]) == "size 1 MB, d 4, a 1"
    assert format_headline({}, ()) == ""
    latency = {name: Metric(1) for name in ("cpu", "first", "load", "p50", "speedup")}
    assert format_headline(latency, ()) == "p50 1, speedup 1, cpu 1"
    assert format_headline(latency, ["load", "speedup"]) == "load 1, speedup 1, p50 1"
    fused = {"fused.Attention": Metric(0), "fused.MultiHeadAttention": Metric(3), "lost": Metric(0)}
    assert format_headline(fused, ()) == "fused.MultiHeadAttention 3, lost 0, fused.Attention 0"


def test_paths_are_shown_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert show_path(str(tmp_path / "pipelines" / "bert.yaml")) == "pipelines/bert.yaml"
    assert show_path("/elsewhere/bert.yaml") == "/elsewhere/bert.yaml"
    assert show_path("bert.yaml") == "bert.yaml"
