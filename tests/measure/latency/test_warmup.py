"""A model that gets faster is warmed up for longer, another one for no longer than was asked; by a clock of ours."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from orun.measure.latency.cpu_time import Times
from orun.measure.latency.warmup import Warmth, warm_up


class Model:
    """A model whose inferences take these seconds, on the clock as on the processor."""

    def __init__(self, seconds: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.now = iter(seconds), 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def infer(self) -> Times:
        seconds = next(self.seconds)
        self.now += seconds
        wall = np.array([seconds])
        return Times(wall, wall, wall, None)


def test_a_warm_model_is_warmed_up_for_as_long_as_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as long again, to see that it was."""
    model = Model(itertools.chain([0.125] * 8, itertools.repeat(0.1171875)), monkeypatch)
    assert warm_up(model.infer, 1.0, 20.0, processor=True) == Warmth(1.0, 0.1171875, 8 + 9)


def test_a_model_that_gets_faster_is_given_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight slow inferences of 1 s, then it is a quarter as long: seen after 2 s, and after 4 s known to stay so."""
    model = Model(itertools.chain([0.125] * 8, itertools.repeat(0.03125)), monkeypatch)
    assert warm_up(model.infer, 1.0, 20.0, processor=True) == Warmth(2.0, 0.03125, 8 + 32 + 64)


def test_a_model_that_gets_faster_all_the_while_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model((), monkeypatch)
    model.seconds = (0.25 / (1 + model.now) for _ in itertools.count())
    warmth = warm_up(model.infer, 1.0, 16.0, processor=True)
    assert 8 < warmth.seconds == model.now <= 16


@pytest.mark.parametrize("longest", [0.0, 1.5])
def test_nobody_looks_where_there_is_no_time_for_it(monkeypatch: pytest.MonkeyPatch, longest: float) -> None:
    """A slow model takes two inferences, however long they are."""
    model = Model(itertools.repeat(0.5), monkeypatch)
    assert warm_up(model.infer, 0.25, longest, processor=True) == Warmth(0.25, 0.5, 2)


def test_others_do_not_look_like_a_cold_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """While others have the core, the clock goes on and the CPU time does not; of a device there is the clock alone."""
    for processor, seconds in ((True, 1.0), (False, 2.0)):
        model = Model(itertools.chain([0.25] * 4, itertools.repeat(0.125)), monkeypatch)

        def infer(model: Model = model) -> Times:
            return replace(model.infer(), process=np.array([0.0625]))

        assert warm_up(infer, 1.0, 20.0, processor=processor).seconds == seconds
