"""Real launches that take little time."""

from __future__ import annotations

import pytest

from orun.measure.latency import abba_blocks, cpu_cores


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few inferences and a short look for the quietest core, for tests that assert no time."""
    monkeypatch.setattr(abba_blocks, "BLOCK_SECONDS", 0.001)
    monkeypatch.setattr(cpu_cores, "WATCH_SECONDS", 0.01)
