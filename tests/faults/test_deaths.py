"""kill -9 and power cuts: the next run ends as a clean one, keeps what was stored, and leaves nothing behind."""

from __future__ import annotations

import sys
from random import Random

import pytest

from tests.faults import deaths
from tests.faults.folders import remove
from tests.faults.rig import Rig
from tests.thin import mostly_slow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
TRIES = 40  # a stage lives for a moment only, and is hard to hit where the machine is busy


@pytest.mark.parametrize("victim", mostly_slow(["runner", "a stage", "both", "the group"], "a stage"))
def test_sudden_death(text: Rig, victim: str) -> None:
    for number in range(TRIES):
        death, judgement = deaths.trial(text, Random(f"2026-11-{number}"), victim)
        assert judgement.outcome != "wrong", f"{death}: {judgement.why}"
        if death.victim == victim and death.code != 0:
            return
    pytest.fail(f"{victim} was never killed")


def test_a_power_cut_while_stages_are_stored(text: Rig) -> None:
    remove(text.store)
    death, judgement = deaths.power_cut(text, 300)
    assert (death.code, judgement.outcome) == (-9, "rebuilt"), f"{death}: {judgement.why}"
    assert 0 < death.events < len(text.subject.stages)


@pytest.mark.slow
def test_a_run_that_ends_before_the_power_does(text: Rig) -> None:
    """Nothing is done twice then."""
    remove(text.store)
    death, judgement = deaths.power_cut(text, 10**6)
    assert (death.code, death.events, judgement.outcome, judgement.why) == (0, 6, "survived", "")
