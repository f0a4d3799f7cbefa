"""The least of many launches, in turn and by one method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from orun.measure.benchmark_case import Subject
from orun.measure.latency import final_timing as module
from orun.measure.latency.abba_blocks import Launch, Method, Pace
from orun.measure.latency.final_timing import FEWEST, undisturbed
from tests.measure.support import launched, save_model, subject


def test_the_least_of_many_launches_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fast` is disturbed in all launches but one, in which it shows what it takes; `slow` in none."""
    asked: list[tuple[str, Method | None]] = []
    subjects = {name: Subject(Path(name), subject(Path()).target, {}) for name in ("fast", "slow")}
    times: dict[str, Iterator[float]] = {"fast": iter((0.5, 9.0, 5.0, 9.0)), "slow": iter((0.5, 7.0, 7.0, 7.0))}

    def launch(given: Mapping[str, Subject], _pace: Pace, _random: Random, method: Method | None = None) -> Launch:
        name = given["model"].model.name
        asked.append((name, method))
        return replace(launched({"model": [0.01]}, {}), busy={"model": next(times[name])})

    monkeypatch.setattr(module, "launch", launch)
    rounds: list[int] = []
    assert undisturbed(subjects, 0.0, 0, rounds.append) == {"fast": 5.0, "slow": 7.0}
    assert rounds == [1, 2, 3]
    assert asked[:2] == [("fast", None), ("slow", None)]  # to see how both can be timed, and for nothing else
    assert sorted(asked[2:]) == [("fast", "thread")] * FEWEST + [("slow", "thread")] * FEWEST


def test_real_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subjects = {f"{layers}": subject(save_model(tmp_path / f"{layers}.onnx", layers=layers)) for layers in (1, 2)}
    found = undisturbed(subjects, 0.0, 0, lambda _: None)
    assert list(found) == ["1", "2"]
    assert min(found.values()) > 0
