"""The benchmarks run; what they measure is for people to read."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import get_args

import numpy as np
import pytest

import orun
from benchmarks import (
    big,
    cold,
    envelope,
    fusion,
    makespan,
    node_tests,
    noop,
    remote,
    restore,
    runner,
    task_coverage,
)
from benchmarks.graphs import Shape, edges, write_pipeline
from benchmarks.spent import Spent, in_turn, table, verdict
from orun.stages.params import build
from orun.stages.registry import import_kind


@pytest.mark.parametrize(
    "script", [big, cold, envelope, fusion, makespan, node_tests, noop, remote, restore, runner, task_coverage]
)
def test_help_says_what_is_measured(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        script.main(["--help"])
    assert (script.__doc__ or "").split()[:5] == capsys.readouterr().out.partition("\n\n")[2].split()[:5]


@pytest.mark.parametrize("shape", get_args(Shape))
def test_a_graph_is_a_pipeline(tmp_path: Path, shape: Shape) -> None:
    pipeline = orun.load(write_pipeline(tmp_path, shape, 5))
    before = {stage.id: tuple(stage.needs.values()) for stage in pipeline.stages}
    assert before == {f"s{number}": () if source is None else (f"s{source}",) for number, source in edges(shape, 5)}
    result = orun.run(pipeline, store=tmp_path / "store")
    assert result.exit_code == 0
    assert [Path(stage.out or "", "number.txt").read_text() for stage in result.stages] == list("01234")


@pytest.mark.slow  # each runner starts whole processes; what is made of their times is quick, below
@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_runners_are_compared_on_the_same_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main(["--sizes", "3", "--rounds", "1", "--only", "orun", "make"])
    rows = [line.split(" | ")[:3] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows[2:] == [[f"| {shape}", "3", tool] for shape in ("fan", "chain") for tool in ("orun", "make")]


@pytest.mark.slow
def test_a_deleted_output_is_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    restore.main(["--mib", "1", "--rounds", "1"])
    rows = [line.partition(" | ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["| orun, the output deleted", "| orun, nothing deleted", "| its digest, once", "| a copy of it"]


def test_figures_are_medians_of_rounds_in_turn() -> None:
    order: list[str] = []
    times = iter([Spent(1, 10), Spent(5, 50), Spent(2, 20), Spent(7, 70), Spent(9, 90), Spent(6, 60)])

    def task(name: str) -> Spent:
        order.append(name)
        return next(times)

    figures = in_turn({"a": lambda: task("a"), "b": lambda: task("b")}, 3)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert figures == {"a": Spent(2, 20), "b": Spent(6, 60)}


def test_tables_and_verdicts() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert [verdict(1.0, 1.15), verdict(1.2, 1.15)] == ["within 1.15", "MISSES 1.15"]


def test_the_least_time_is_the_shared_sum_or_the_longest_stage() -> None:
    assert makespan.Makespan(9.0, (1.0, 2.0, 3.0)).least(2) == 3.0
    assert makespan.Makespan(9.0, (1.0, 5.0, 2.0)).least(2) == 5.0


@pytest.mark.skipif(not shutil.which("xargs"), reason="xargs is not installed")
def test_makespans_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    makespan.main(["--stages", "3", "--unit", "0.01", "--rounds", "1"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == ["| orun, times known", "| orun, times unknown", "| xargs, longest first"]
    assert all(float(row[1]) >= float(row[2]) > 0 for row in rows)


@pytest.mark.slow
def test_a_kind_on_the_big_model_made_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(big, "LAYERS", 2)
    monkeypatch.setattr(big, "WIDTH", 64)
    big.main(["--only", "quantize/qat"])
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[:3] == [
        "| `quantize/qat`",
        "refuses",
        "the model has no fake quantization: it has neither QuantizeLinear nor DequantizeLinear",
    ]
    assert float(row[3]) >= 0


def test_kinds_are_given_what_they_take() -> None:
    for kind, case in big.CASES.items():
        module = import_kind(kind)
        assert build(module.Params, case.params)
        assert set(case.inputs) <= set(module.SPEC.inputs)


@pytest.mark.slow
def test_each_case_of_coverage_has_a_truth_and_intervals() -> None:
    for name, draw, _, _ in task_coverage.cases():
        ours, theirs = (task_coverage.figure(values) for values in draw(300, np.random.default_rng(0)))
        held, _, known = task_coverage.coverage(draw, 60, (ours, ours - theirs), 1)
        assert known == (not name.startswith("map")), name  # of the rarest class there are too few
        assert held in (0, 1)
