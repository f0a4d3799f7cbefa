"""Several faults at once; `benchmarks/faults.py` tries hundreds more."""

from __future__ import annotations

import sys
from random import Random

import pytest

from tests.faults import combined_faults
from tests.faults.rig import Rig
from tests.thin import mostly_slow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.mark.parametrize("number", mostly_slow(range(4), 0))
def test_several_faults_at_once(text: Rig, number: int) -> None:
    description, judgement = combined_faults.trial(text, Random(f"2026-11-{number}"))
    assert judgement.outcome != "wrong", f"{description}: {judgement.why}"
