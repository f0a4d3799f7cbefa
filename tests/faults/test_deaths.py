"""kill -9 at random instants: the next run ends as a clean one, keeps what was stored, and leaves nothing behind."""

from __future__ import annotations

import sys
from random import Random

import pytest

from tests.faults import deaths
from tests.faults.rig import Rig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.mark.parametrize("number", range(3))
def test_sudden_death(apart: Rig, number: int) -> None:
    death, judgement = deaths.trial(apart, Random(f"2026-11-{number}"))
    assert judgement.outcome != "wrong", f"{death}: {judgement.why}"
