"""Trial of a custom stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.events import Event, StageStarted
from orun.scaffold.stage_text import format_stage
from orun.scaffold.stage_trial import try_stage


def test_an_interrupted_trial_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ops.py").write_text(format_stage("ops.py", "count"), encoding="utf-8")

    def interrupt(event: Event) -> None:
        if isinstance(event, StageStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        try_stage("./ops.py:count", {}, {}, interrupt)
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["ops.py"]
