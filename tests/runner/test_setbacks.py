"""Time for which a stage may lack a machine."""

from __future__ import annotations

import pytest

from orun.core.events import Event
from orun.runner import setbacks
from orun.runner.setbacks import Setbacks


def test_the_time_without_a_machine_begins_anew_once_there_was_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now, events = [0.0], list[Event]()
    monkeypatch.setattr(setbacks, "monotonic", lambda: now[0])
    run = Setbacks(wait=30.0, emit=events.append)
    assert run.find_lack("make", "no machine is here") is None
    now[0] = 10.0
    run.stop_lacking("make")
    assert not run.waiting
    now[0] = 100.0
    assert run.find_lack("make", "no machine is here") is None
    now[0] = 130.0
    failure = run.find_lack("make", "no machine is here")
    assert failure is not None
    assert failure.problem == "make cannot run: no machine is here"
    assert len(events) == 2
