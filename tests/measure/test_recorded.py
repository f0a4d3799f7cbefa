"""Recorded launches: the statistics on real times of a busy machine, exactly and without measuring."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.measure.oncpu import Times
from orun.measure.quads import Round, _quads
from orun.measure.sequential import Evidence

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "launches.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("slowdown", [0.02, 0.04, 0.05])
def test_no_equal_model_is_called_slower(slowdown: float) -> None:
    found = Counter(answer for answer, _ in gates(RECORDED["equal"], slowdown))
    assert found == {"not slower": len(RECORDED["equal"])}


@pytest.mark.parametrize("slowdown", [0.02, 0.04, 0.05])
def test_every_slower_model_is_caught(slowdown: float) -> None:
    found = Counter(answer for answer, _ in gates(RECORDED["slower"], slowdown))
    assert found == {"slower": len(RECORDED["slower"])}


def test_few_launches_suffice() -> None:
    taken = [launches for _, launches in gates(RECORDED["equal"], 0.05)]
    assert Counter(taken) == {3: 87, 4: 3}
    assert max(launches for _, launches in gates(RECORDED["slower"], 0.05)) == 7


def test_the_value_of_a_launch_is_the_median_of_its_quads() -> None:
    rounds: list[Round] = [
        ("baseline", [(name, Times(np.array(cpu), np.array(cpu), None)) for name, cpu in blocks])
        for blocks in RECORDED["quads"]
    ]
    quads = _quads(rounds, "baseline", "thread")
    first = [cpu for _, cpu in RECORDED["quads"][0]]
    names = [name for name, _ in RECORDED["quads"][0]]
    model = [cpu[0] for name, cpu in zip(names, first, strict=True) if name == "model"]
    other = [cpu[0] for name, cpu in zip(names, first, strict=True) if name == "baseline"]
    assert len(quads) == 12
    assert quads[0] == pytest.approx(math.log(sum(model) / sum(other)))
    assert np.median(quads) == pytest.approx(RECORDED["slower"][0], abs=1e-6)


def gates(ratios: Sequence[float], slowdown: float) -> list[tuple[str, int]]:
    """A gate from each of the launches on, round in a circle."""
    return [_gate([*ratios[start:], *ratios[:start]], slowdown) for start in range(len(ratios))]


def _gate(ratios: Sequence[float], slowdown: float) -> tuple[str, int]:
    for count in range(2, len(ratios) + 1):
        answer = Evidence.of(ratios[:count]).answer(math.log1p(slowdown))
        if answer != "undecided":
            return answer, count
    return "undecided", len(ratios)
