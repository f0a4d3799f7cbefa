"""Times of nodes from a profile: nesting, order, warm-up, and those of nodes that are left in peace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from orun.measure.latency.nodes import Node, average_undisturbed, read_profile


def event(name: str, start: int, length: int, index: int | None = None) -> dict[str, Any]:
    if index is None:
        return {"cat": "Session", "name": name, "ts": start, "dur": length, "args": {}}
    return {"cat": "Node", "name": name, "ts": start, "dur": length, "args": {"node_index": str(index)}}


def profile(folder: Path, events: list[dict[str, Any]]) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(events))
    return path


def test_each_node_in_each_inference(tmp_path: Path) -> None:
    events = [
        event("session_initialization", 0, 90),
        event("add_fence_before", 100, 1, 0),
        event("add_kernel_time", 101, 10, 0),
        event("mul_kernel_time", 111, 20, 1),
        event("model_run", 100, 40),
        event("add_kernel_time", 201, 11, 0),
        event("mul_kernel_time", 212, 22, 1),
        event("model_run", 200, 50),
    ]
    profiled = read_profile(profile(tmp_path, events), excluded=())
    assert profiled.times.tolist() == [[10e-6, 20e-6], [11e-6, 22e-6]]
    assert not (tmp_path / "profile.json").exists()


def test_a_node_with_a_subgraph_counts_once(tmp_path: Path) -> None:
    events = [
        event("inner_kernel_time", 105, 10, 0),
        event("inner_kernel_time", 115, 10, 0),
        event("loop_kernel_time", 101, 30, 0),
        event("after_kernel_time", 131, 5, 1),
        event("model_run", 100, 40),
    ]
    assert read_profile(profile(tmp_path, events), excluded=()).times.tolist() == [[30e-6, 5e-6]]


def test_inferences_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    events = [event_read for run in range(3) for event_read in _run(100 * run, run + 1)]
    assert read_profile(profile(tmp_path, events), excluded={0, 2}).times.tolist() == [[2e-6]]


def test_a_node_that_does_not_always_run_is_left_out(tmp_path: Path) -> None:
    events = [*_run(0, 4), *_run(100, 5), event("rare_kernel_time", 110, 50, 7)]
    assert read_profile(profile(tmp_path, events), excluded=()).times.tolist() == [[4e-6], [5e-6]]


def _run(start: int, length: int) -> list[dict[str, Any]]:
    return [event("model_run", start, 80), event("add_kernel_time", start + 1, length, 0)]


def test_the_time_of_nodes_that_are_left_in_peace() -> None:
    """Each was in some inferences, no inference was throughout."""
    peace = np.array([1.0, 2.0, 3.0])
    times = np.tile(peace, (12, 1))
    for inference in range(12):
        times[inference, inference % 3] += 5.0
    assert average_undisturbed(times).tolist() == [1.0, 2.0, 3.0]


def test_the_fastest_tenth_is_averaged() -> None:
    assert average_undisturbed(np.arange(20.0)[::-1, None]).tolist() == [0.5]
    assert average_undisturbed(np.array([[2.0], [1.0]])).tolist() == [1.0]


def test_what_a_node_is(tmp_path: Path) -> None:
    node = event("add_kernel_time", 101, 10, 4)
    node["args"] |= {"op_name": "Add", "provider": "CPUExecutionProvider", "output_type_shape": [{"float": [2, 3]}]}
    profiled = read_profile(profile(tmp_path, [node, event("model_run", 100, 40)]), excluded=())
    assert profiled.nodes == (Node("4", "add", "Add", "CPUExecutionProvider", "2x3"),)
    assert profiled.totals.tolist() == [40e-6]
