"""The least of many launches, in turn and by one method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency import final_timing as module
from orun.measure.latency.final_timing import FEWEST_ROUNDS, time_candidates
from orun.measure.latency.launch import Launch, Pace
from orun.measure.latency.timing_method import Method
from tests.measure.support import case_of, launched, save_model


def test_the_least_of_many_launches_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fast` is disturbed in all launches but one, `slow` in none."""
    calls: list[tuple[str, Method | None]] = []
    cases = {name: BenchmarkCase(Path(name), case_of(Path()).target, {}) for name in ("fast", "slow")}
    times: dict[str, Iterator[float]] = {"fast": iter((0.5, 9.0, 5.0, 9.0)), "slow": iter((0.5, 7.0, 7.0, 7.0))}

    def launch(
        cases: Mapping[str, BenchmarkCase], _pace: Pace, _random: Random, _start: object, method: Method | None = None
    ) -> Launch:
        name = cases["model"].model.name
        calls.append((name, method))
        return replace(launched({"model": [0.01]}, {}), inference_seconds={"model": next(times[name])})

    monkeypatch.setattr(module, "run_launch", launch)
    rounds: list[int] = []
    assert time_candidates(cases, 0.0, 0, rounds.append) == {"fast": 5.0, "slow": 7.0}
    assert rounds == [1, 2, 3]
    assert calls[:2] == [("fast", None), ("slow", None)]  # to choose the method
    assert sorted(calls[2:]) == [("fast", "thread")] * FEWEST_ROUNDS + [("slow", "thread")] * FEWEST_ROUNDS


@pytest.mark.usefixtures("short_blocks")
def test_real_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(module, "PACE", replace(module.PACE, abba_seconds=0.0))
    cases = {f"{layers}": case_of(save_model(tmp_path / f"{layers}.onnx", layers=layers)) for layers in (1, 2)}
    seconds = time_candidates(cases, 0.0, 0, lambda _: None)
    assert list(seconds) == ["1", "2"]
    assert min(seconds.values()) > 0
