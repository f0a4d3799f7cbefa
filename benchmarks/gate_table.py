"""Table of `gate_power`, with exact intervals of its shares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.rival_gates import RIVALS

Line = Mapping[str, Any]


def table(lines: Sequence[Line]) -> list[str]:
    """Return the table in Markdown: one row for each case and gate."""
    rows = [
        "| planted (truly) | limit | gate | gates | called slower | undecided | s median / 95 % | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    cases = sorted({(line["limit"], line["planted"]) for line in lines})
    for limit, planted in cases:
        mine = [line for line in lines if (line["limit"], line["planted"]) == (limit, planted)]
        head = f"| {planted:.0%} ({_truth(mine):.1%}) | {limit:.0%} |"
        rows.append(f"{head} **orun** | {_ours(mine)} |")
        compared = [line["rivals"] for line in mine if "rivals" in line]
        for name in RIVALS if compared else ():
            slower = sum(verdicts[name] for verdicts in compared)
            rows.append(f"{head} {name} | {len(compared)} | {share(slower, len(compared))} | | | |")
    return [*rows, "", *_load(lines)]


def _truth(lines: Sequence[Line]) -> float:
    """Return the planted slow-down, measured over every launch of every gate."""
    return float(np.expm1(np.median([ratio for line in lines for ratio in line["launches"]])))


def _ours(lines: Sequence[Line]) -> str:
    outcomes, seconds = Counter(line["ours"] for line in lines), [line["seconds"] for line in lines]
    spans = f"{np.median(seconds):.1f} / {np.quantile(seconds, 0.95):.1f}"
    cpu = np.median([line["cpu_seconds"] for line in lines])
    shares = [share(outcomes[outcome], len(lines)) for outcome in ("failed", "undecided")]
    return f"{len(lines)} | {shares[0]} | {shares[1]} | {spans} | {cpu:.1f}"


def _load(lines: Sequence[Line]) -> list[str]:
    """Say how busy the machine was."""
    loads = [line["load"] for line in lines if line["load"] is not None]
    waits = [line["pressure"] for line in lines if line["pressure"] is not None]
    sentences = [f"load while measuring: median {np.median(loads):.1f}, from {min(loads):.1f} to {max(loads):.1f}"]
    if waits:
        sentences.append(
            f"some thread waited for a core: median {np.median(waits):.0%} of the time, to {max(waits):.0%} of it"
        )
    return sentences


def share(hits: int, count: int) -> str:
    """`1 of 400: 0.2 % (0.0 to 1.4)`."""
    low, high = binomtest(hits, count).proportion_ci(method="exact")  # of Clopper and Pearson: never too narrow
    return f"{hits}: {100 * hits / count:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file of one JSON object a line; none if it is missing."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
