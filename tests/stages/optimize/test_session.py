"""`optimize/session`: which candidates there are, that luck wins nothing, and what is left beside the model."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.core.targets import Provider, Target
from orun.environment.processor import count_usable_cores, read_cpu
from orun.errors import UsageError
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency.launch import Launch
from orun.measure.latency.measurement import Measurement
from orun.measure.latency.pressure import Pressure
from orun.measure.plugins import list_available
from orun.measure.session_settings import FILE_NAME, SessionSettings, read_settings, write_settings
from orun.stages.optimize._session import search as searching
from orun.stages.optimize._session.candidates import DEFAULT, Candidate, list_candidates
from orun.stages.optimize._session.search import Search
from tests.measure.support import launched, save_model
from tests.measure.test_session_settings import CPU, ONE
from tests.stages.support import digest, run_stage
from tests.thin import mostly_slow

SPREAD = 0.01  # standard deviation of the log ratio of a launch


def titles(target: Target, cores: int = 4, available: tuple[str, ...] = ("CPUExecutionProvider",)) -> list[str]:
    return [candidate.title for candidate in list_candidates(target, cores, available)]


def test_candidates_change_one_setting_each() -> None:
    assert titles(Target("cpu")) == [
        "intra_op_num_threads: 1",
        "intra_op_num_threads: 2",
        "intra_op_num_threads: 4",
        "execution_mode: parallel, inter_op_num_threads: 2",
        "execution_mode: parallel, inter_op_num_threads: 4",
        "graph_optimization_level: extended",
        "graph_optimization_level: basic",
        "enable_cpu_mem_arena: false",
        "enable_mem_pattern: false",
        "session.intra_op.allow_spinning: false",
        "session.dynamic_block_base: 4",
    ]
    assert titles(Target("cpu"), cores=1) == [
        "intra_op_num_threads: 1",
        "graph_optimization_level: extended",
        "graph_optimization_level: basic",
        "enable_cpu_mem_arena: false",
        "enable_mem_pattern: false",
    ]


def test_what_the_target_sets_is_not_changed() -> None:
    pinned = Target("cpu", session={"intra_op_num_threads": 1, "graph_optimization_level": "all"})
    changed = {change for candidate in list_candidates(pinned, 4, ()) for change in candidate.changes}
    assert changed == {"execution mode", "memory arena", "memory pattern"}


def test_other_kernels_where_the_build_has_them() -> None:
    assert titles(Target("cpu"), 2, ("XnnpackExecutionProvider", "CPUExecutionProvider"))[-1] == (
        "intra_op_num_threads: 1, session.intra_op.allow_spinning: false, "
        "XnnpackExecutionProvider (intra_op_num_threads: 2), CPUExecutionProvider"
    )
    cuda = Target("gpu", (Provider("CUDAExecutionProvider"), *CPU))
    assert titles(cuda) == [
        "graph_optimization_level: extended",
        "graph_optimization_level: basic",
        "CUDAExecutionProvider (prefer_nhwc: 1), CPUExecutionProvider",
    ]
    chosen = Target("gpu", (Provider("CUDAExecutionProvider", {"prefer_nhwc": "0"}), *CPU))
    assert not any("prefer_nhwc" in title for title in titles(chosen))


Truth = Callable[[Candidate], float]  # log ratio of a candidate's time to the default's


class Machine:
    """Launches of a made-up machine, where each candidate has a true speed."""

    def __init__(self, seed: int, candidates: list[Candidate], gains: Mapping[str, float]) -> None:
        self.random, self.gains, self.launches = Random(seed), gains, 0
        self.candidates = candidates

    def truth(self, target: Target) -> float:
        """The gains of the settings that a target has, added up."""
        return sum(
            self.gains.get(candidate.title, 0.0)
            for candidate in self.candidates
            if candidate.session.items() <= target.session.items()
        )

    def run_launch(self, cases: Mapping[str, BenchmarkCase], *_rest: object) -> Launch:
        self.launches += 1
        ratio = self.truth(cases["model"].target) + self.random.gauss(0, SPREAD)
        ratios = {"reference": ratio} if "reference" in cases else {}
        return launched({name: [1.0, 1.0] for name in cases}, ratios)

    def measure(self, cases: Mapping[str, BenchmarkCase], *_rest: object) -> Measurement:
        return Measurement([self.run_launch(cases) for _ in range(8)], 8.0, Pressure(None, None))


@pytest.fixture
def search_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], tuple[Search, Candidate]]:
    case = BenchmarkCase(tmp_path / "model.onnx", Target("cpu"), {})

    def run(machine: Machine) -> tuple[Search, Candidate]:
        monkeypatch.setattr(searching, "run_launch", machine.run_launch)
        monkeypatch.setattr(searching, "measure", machine.measure)
        search = Search(case, math.inf, 0, logging.getLogger("test"), lambda *_: None)
        return search, search.propose(machine.candidates)

    return run


def test_the_faster_setting_is_proposed_and_shown(search_on: Callable[[Machine], tuple[Search, Candidate]]) -> None:
    candidates = list_candidates(Target("cpu"), 4, ())
    machine = Machine(1, candidates, {"intra_op_num_threads: 2": -0.2, "intra_op_num_threads: 1": 0.5})
    search, proposal = search_on(machine)
    assert proposal.title == "intra_op_num_threads: 2"
    assert search.confirm(proposal).weigh_evidence("reference").ratio.high < 0.9
    assert machine.launches < 8 * len(candidates), "slow candidates are dropped before the last launch"


def test_settings_that_help_together_are_joined(search_on: Callable[[Machine], tuple[Search, Candidate]]) -> None:
    gains = {"intra_op_num_threads: 2": -0.2, "enable_cpu_mem_arena: false": -0.1}
    _, proposal = search_on(Machine(2, list_candidates(Target("cpu"), 4, ()), gains))
    assert proposal.title == "intra_op_num_threads: 2, enable_cpu_mem_arena: false"
    assert proposal.changes == ("threads", "memory arena")


@pytest.mark.parametrize("searches", mostly_slow([40, 200], 40))
def test_luck_wins_nothing(search_on: Callable[[Machine], tuple[Search, Candidate]], searches: int) -> None:
    """All settings are as fast as the default: 2.5 % of the searches at most may show otherwise."""
    candidates = list_candidates(Target("cpu"), 4, ())
    proposed = shown = 0
    for seed in range(searches):
        search, proposal = search_on(Machine(seed, candidates, {}))
        if proposal != DEFAULT:
            proposed += 1
            shown += search.confirm(proposal).weigh_evidence("reference").ratio.high < 1
    assert shown <= searches / 40 < proposed


def test_a_setting_that_cannot_run_is_left_out(
    search_on: Callable[[Machine], tuple[Search, Candidate]], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(3, list_candidates(Target("cpu"), 4, ()), {"enable_mem_pattern: false": -0.3})
    plain = machine.run_launch

    def failing(cases: Mapping[str, BenchmarkCase], *rest: object) -> Launch:
        if cases["model"].target.session.get("execution_mode") == "parallel":
            raise UsageError("ONNX Runtime cannot open model.onnx", why="no such mode")
        return plain(cases, *rest)

    monkeypatch.setattr(machine, "run_launch", failing)
    search, proposal = search_on(machine)
    assert proposal.title == "enable_mem_pattern: false"
    dropped = {track.candidate.title: track.dropped for track in search.tracks}
    assert dropped["execution_mode: parallel, inter_op_num_threads: 2"] == "cannot run: no such mode"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An artifact with a model."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_model(folder / "model.onnx")
    return folder


def test_the_default_stays_when_time_is_up_and_settings_for_other_targets_stay(tmp_path: Path, folder: Path) -> None:
    gpu = (Provider("CUDAExecutionProvider"), *CPU)
    other = SessionSettings(gpu, gpu, {"execution_mode": "sequential"})
    write_settings(folder, (ONE, other))
    run = run_stage("optimize/session", tmp_path, {"time": 0.0}, inputs={"model": folder}, target=Target("cpu"))
    assert digest(run.output)["model.onnx"] == digest(folder)["model.onnx"]
    assert read_settings(run.output) == (other, SessionSettings(CPU, CPU, {}, read_cpu()["cpu"]))
    assert (run.value("speedup"), run.value("settings")) == (1, 0)
    count = len(list_candidates(Target("cpu"), count_usable_cores(), list_available()))
    (note,) = run.notes
    assert note == (
        f"no session settings are shown to be faster on cpu than its own; {count} of {count} were not judged: raise "
        "`time`, or use a quieter machine"
    )


def test_a_model_that_cannot_run_is_named(tmp_path: Path, folder: Path) -> None:
    target = Target("cpu", session={"custom_op_libraries": ["none.so"]})
    with pytest.raises(UsageError, match=r"^target 'cpu': the custom operators of none\.so cannot be loaded"):
        run_stage("optimize/session", tmp_path, {"time": 0.0}, inputs={"model": folder}, target=target)


def test_settings_stay_with_the_metadata(tmp_path: Path, folder: Path) -> None:
    write_settings(folder, (ONE,))
    described = run_stage("release/metadata", tmp_path, {"provenance": False}, inputs={"model": folder})
    assert (described.output / FILE_NAME).read_bytes() == (folder / FILE_NAME).read_bytes()


def save_branches(path: Path) -> None:
    """Save a model of two chains of products that do not depend on one another."""
    nodes: list[Any] = []
    weights = []
    for branch in "ab":
        names = ["x", *(f"{branch}{place}" for place in range(1, 7))]
        for place in range(6):
            weight = np.random.default_rng(place).standard_normal((512, 512), dtype=np.float32) / 23
            weights.append(numpy_helper.from_array(weight, f"w{branch}{place}"))
            nodes.append(helper.make_node("MatMul", [names[place], f"w{branch}{place}"], [names[place + 1]]))
    nodes.append(helper.make_node("Add", ["a6", "b6"], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 512]) for name in "xy"]
    graph = helper.make_graph(nodes, "branches", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.slow
def test_what_is_chosen_on_this_machine_is_faster(tmp_path: Path) -> None:
    """One thread an operator, and two operators at a time: what is found depends on how busy the machine is."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_branches(folder / "model.onnx")
    target = Target("cpu", session={"intra_op_num_threads": 1})
    run = run_stage("optimize/session", tmp_path, {"time": 30.0}, inputs={"model": folder}, target=target)
    (settings,) = read_settings(run.output)
    speedup = run.metrics["speedup"]
    if settings.session:
        assert speedup.interval
        assert speedup.interval.low > 1
    else:
        assert speedup.value == 1
    assert run.value("tried") <= 5
