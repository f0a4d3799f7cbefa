"""Time of each node in each inference, from the profile that ONNX Runtime writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orun.measure.latency.cpu_time import Floats

PREFIX = "profile"  # of the file in the working folder
KERNEL = "_kernel_time"  # the end of the name of an event that times a node
LOWEST = 0.1  # share of a node's inferences that count as undisturbed


@dataclass(frozen=True)
class Node:
    """A node of the graph that ONNX Runtime runs, which is not that of the file.

    Attributes:
        index: its number in that graph.
        name: its name.
        op: its type.
        provider: where it runs.
        shapes: of its outputs, as text.
    """

    index: str
    name: str
    op: str
    provider: str
    shapes: str


@dataclass(frozen=True, eq=False)
class Profile:
    """What a profile tells.

    Attributes:
        nodes: those that run in every inference, in the order of the first one; one that holds a subgraph counts as
            one.
        times: seconds of each, `[inferences, nodes]`.
        whole: seconds of each inference, `[inferences]`.
    """

    nodes: tuple[Node, ...]
    times: Floats
    whole: Floats


def read(file: Path, aside: Collection[int]) -> Profile:
    """Read a profile and remove it; inferences of the numbers `aside` are left out."""
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    starts = sorted((event["ts"], event["dur"]) for event in events if event["name"] == "model_run")
    kernels = [event for event in events if event.get("cat") == "Node" and event["name"].endswith(KERNEL)]
    runs: list[dict[Node, int]] = [{} for _ in starts]
    position, end = -1, 0
    for event in sorted(kernels, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] < end:
            continue  # within the subgraph of the node before
        while position + 1 < len(starts) and starts[position + 1][0] <= event["ts"]:
            position += 1
        end = event["ts"] + event["dur"]
        runs[position][_node(event)] = event["dur"]
    kept = [number for number in range(len(runs)) if number not in aside]
    common = tuple(node for node in runs[kept[0]] if all(node in runs[number] for number in kept))
    times = np.array([[runs[number][node] for node in common] for number in kept]) / 1e6
    return Profile(common, times, np.array([starts[number][1] for number in kept]) / 1e6)


def _node(event: Mapping[str, Any]) -> Node:
    known = event["args"]
    shapes = [shape for output in known.get("output_type_shape", ()) for shape in output.values()]
    text = " ".join("x".join(map(str, shape)) or "1" for shape in shapes)
    name = event["name"].removesuffix(KERNEL)
    return Node(known["node_index"], name, known.get("op_name", ""), known.get("provider", ""), text)


def quiet(times: Floats) -> Floats:
    """The time of each node when it is left in peace, from `[inferences, nodes]`: the mean of its fastest tenth."""
    ordered = np.sort(times, axis=0)
    found: Floats = ordered[: max(int(len(ordered) * LOWEST), 1)].mean(axis=0)
    return found
