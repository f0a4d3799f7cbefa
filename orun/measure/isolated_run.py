"""Isolated run: a model's outputs from a process of its own, with its load time and the placement of its nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.core.serialization import Record, decode, encode
from orun.core.targets import Target
from orun.errors import OrunError
from orun.measure.placement import Subgraph, read_placement
from orun.measure.session import open_session

Array = NDArray[Any]

TIMEOUT_SECONDS = 3600
LINES = 5  # of the process's stderr that a message shows


class RunRequest(Record, frozen=True):
    """A model and its target."""

    model: Path
    target: Target


class SessionReport(Record, frozen=True):
    """Seconds to make the session, and where its nodes landed."""

    load: float
    subgraphs: tuple[Subgraph, ...]


@dataclass(frozen=True, eq=False)
class IsolatedRun:
    """Session report, and the outputs for each feed in the order of the model's outputs."""

    session: SessionReport
    outputs: Sequence[Sequence[Array]]


def run_isolated(request: RunRequest, feeds: Sequence[Mapping[str, Array]]) -> IsolatedRun:
    """Open a model in a new process and run it on each feed.

    Raises:
        OrunError: if the process fails, with the end of its stderr.
    """
    with TemporaryDirectory(prefix="isolated-run-") as temporary:
        folder = Path(temporary)
        (folder / "request.json").write_text(json.dumps(encode(request)), "utf-8")
        (folder / "count.json").write_text(json.dumps(len(feeds)), "utf-8")
        for number, feed in enumerate(feeds):
            _save(folder / f"feed-{number}.npz", feed)
        command = [sys.executable, "-P", "-m", "orun.measure.isolated_run", temporary]
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
        if process.returncode:
            stderr = [line for line in process.stderr.strip().splitlines() if line.strip()]
            raise OrunError(
                f"a new process cannot run {request.model.name} for target '{request.target.name}'",
                why="\n".join(stderr[-LINES:]) or f"exit status {process.returncode}, and it wrote nothing to stderr",
            )
        report = decode(SessionReport, json.loads((folder / "report.json").read_bytes()))
        return IsolatedRun(report, [_load(folder / f"outputs-{number}.npz") for number in range(len(feeds))])


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    texts = {name: value.astype(np.str_) if value.dtype == object else value for name, value in arrays.items()}
    np.savez(path, **texts)  # type: ignore[arg-type]  # its stub takes no mapping beside `allow_pickle`


def _load(path: Path) -> list[Array]:
    with np.load(path, allow_pickle=False) as archive:
        return [archive[str(number)] for number in range(len(archive.files))]


def _main(folder: Path) -> int:
    request = decode(RunRequest, json.loads((folder / "request.json").read_bytes()))
    start = perf_counter()
    try:
        session = open_session(request.model, request.target, watched=True)
    except OrunError as error:
        print(error, file=sys.stderr)  # noqa: T201 - to the parent process
        return 1
    load = perf_counter() - start
    for number in range(json.loads((folder / "count.json").read_bytes())):
        with np.load(folder / f"feed-{number}.npz", allow_pickle=False) as archive:
            feed = {name: archive[name] for name in archive.files}
        outputs = session.run(None, feed)
        named = {str(index): np.asarray(value) for index, value in enumerate(outputs)}
        _save(folder / f"outputs-{number}.npz", named)
    report = SessionReport(load, tuple(read_placement(session)))
    (folder / "report.json").write_text(json.dumps(encode(report)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
