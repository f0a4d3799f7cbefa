"""Time of each node in each inference, from the profile that ONNX Runtime writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from orun.measure.oncpu import Floats

PREFIX = "profile"  # of the file in the working folder
LOWEST = 0.1  # share of a node's inferences that count as undisturbed


def read(file: Path, skipped: int) -> Floats:
    """Read a profile and remove it.

    Args:
        file: the profile.
        skipped: inferences to leave out at the start.

    Returns:
        Seconds of each node that runs in every inference, `[inferences, nodes]`; a node that holds a subgraph counts
        as one.
    """
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    starts = sorted((event["ts"], event["dur"]) for event in events if event["name"] == "model_run")
    kernels = sorted(
        (
            (event["ts"], -event["dur"], event["args"]["node_index"], event["name"])
            for event in events
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
        ),
    )
    runs: list[dict[tuple[str, str], int]] = [{} for _ in starts]
    position, end = -1, 0
    for start, negative, index, name in kernels:
        if start < end:
            continue  # within the subgraph of the node before
        while position + 1 < len(starts) and starts[position + 1][0] <= start:
            position += 1
        end = start - negative
        runs[position][index, name] = -negative
    kept = runs[skipped:]
    common = [key for key in kept[0] if all(key in run for run in kept)]
    return np.array([[run[key] for key in common] for run in kept]) / 1e6


def undisturbed(times: Floats) -> float:
    """The time of an inference in which no node was disturbed, from `[inferences, nodes]`.

    Nodes are short beside a time slice, so that each was left in peace in some inferences even where no whole inference
    was: the mean over the fastest tenth of each node's times, summed over the nodes.
    """
    ordered = np.sort(times, axis=0)
    return float(ordered[: max(int(len(ordered) * LOWEST), 1)].mean(axis=0).sum())
