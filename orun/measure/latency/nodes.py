"""Time of each node in each inference, read from ONNX Runtime's profile."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orun.measure.latency.cpu_time import Floats

PREFIX = "profile"  # of the file in the working folder
KERNEL = "_kernel_time"  # suffix of the name of an event that times a node
FASTEST = 0.1  # share of a node's inferences that count as undisturbed


@dataclass(frozen=True)
class Node:
    """A node of ONNX Runtime's optimized graph.

    Attributes:
        index: its number in that graph.
        name: its name.
        op: its operator type.
        provider: the provider that runs it.
        shapes: of its outputs, as text.
    """

    index: str
    name: str
    op: str
    provider: str
    shapes: str


@dataclass(frozen=True, eq=False)
class Profile:
    """Times of a profiled session.

    Attributes:
        nodes: nodes that run in every inference, in the order of the first one; a node with a subgraph counts as one.
        times: seconds of each node, `[inferences, nodes]`.
        totals: seconds of each inference, `[inferences]`.
    """

    nodes: tuple[Node, ...]
    times: Floats
    totals: Floats


def read_profile(file: Path, excluded: Collection[int]) -> Profile:
    """Read a profile file and remove it; `excluded` are numbers of inferences that do not count."""
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    starts = sorted((event["ts"], event["dur"]) for event in events if event["name"] == "model_run")
    kernels = [event for event in events if event.get("cat") == "Node" and event["name"].endswith(KERNEL)]
    runs: list[dict[Node, int]] = [{} for _ in starts]
    position, end = -1, 0
    for event in sorted(kernels, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] < end:
            continue  # in the subgraph of the node before
        while position + 1 < len(starts) and starts[position + 1][0] <= event["ts"]:
            position += 1
        end = event["ts"] + event["dur"]
        runs[position][_build_node(event)] = event["dur"]
    kept = [number for number in range(len(runs)) if number not in excluded]
    common = tuple(node for node in runs[kept[0]] if all(node in runs[number] for number in kept))
    times = np.array([[runs[number][node] for node in common] for number in kept]) / 1e6
    return Profile(common, times, np.array([starts[number][1] for number in kept]) / 1e6)


def _build_node(event: Mapping[str, Any]) -> Node:
    details = event["args"]
    shapes = [shape for output in details.get("output_type_shape", ()) for shape in output.values()]
    text = " ".join("x".join(map(str, shape)) or "1" for shape in shapes)
    name = event["name"].removesuffix(KERNEL)
    return Node(details["node_index"], name, details.get("op_name", ""), details.get("provider", ""), text)


def average_undisturbed(times: Floats) -> Floats:
    """Return the mean of each node's fastest tenth: `[inferences, nodes] -> [nodes]`."""
    ordered = np.sort(times, axis=0)
    fastest: Floats = ordered[: max(int(len(ordered) * FASTEST), 1)].mean(axis=0)
    return fastest
