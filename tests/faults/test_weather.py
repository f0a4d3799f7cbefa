"""A remote that fails harms neither what is built nor who comes next; `benchmarks/faults.py` tries hundreds more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import commands, weather
from tests.faults.projects import TEXT
from tests.faults.rig import Rig, process
from tests.faults.weather import Weather


@pytest.fixture(scope="module")
def failing() -> Iterator[Weather]:
    """The remote."""
    with weather.serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, failing: Weather) -> Rig:
    """Plain functions, whose runs can reach the remote."""
    rig = Rig.make(tmp_path_factory.mktemp("remote") / "text", TEXT, process)
    commands.watch_temporary(rig)
    rig.variables |= weather.variables(failing)
    return rig


@pytest.mark.parametrize(
    ("direction", "fault", "count"),
    [
        ("push", ("stored half", 3, "three times"), 1),
        ("push", ("hung up, though done", 2, "once"), 2),
        ("pull", ("cut off", 2, "from then on"), 1),
        ("pull", ("other bytes", 2, "once"), 2),
    ],
)
def test_a_remote_that_fails(rig: Rig, failing: Weather, direction: str, fault: weather.Trouble, count: int) -> None:
    what, judgement = weather.trial(rig, failing, direction, fault, count, ())
    assert failing.met, what
    assert judgement.outcome != "wrong", f"{what}: {judgement.why}"
