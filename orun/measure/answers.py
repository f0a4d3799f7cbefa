"""A model's outputs from a process of its own, and how long it took to get ready."""

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
from orun.measure.placement import Subgraph, placement
from orun.measure.session import open_session

Array = NDArray[Any]

SECONDS = 3600
LINES = 5  # of what the process said that are shown


class Question(Record, frozen=True):
    """A model and where it runs."""

    model: Path
    target: Target


class Found(Record, frozen=True):
    """What the process found: seconds to make the session, and where its nodes landed."""

    load: float
    subgraphs: tuple[Subgraph, ...]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the process found, and the outputs for each feed, in the order of the model's outputs."""

    found: Found
    outputs: Sequence[Sequence[Array]]


def ask(question: Question, feeds: Sequence[Mapping[str, Array]]) -> Answers:
    """Open a model in a new process and run it on each feed.

    Raises:
        OrunError: when the process fails, with the end of what it said.
    """
    with TemporaryDirectory(prefix="answers-") as folder:
        work = Path(folder)
        (work / "question.json").write_text(json.dumps(encode(question)), "utf-8")
        (work / "count.json").write_text(json.dumps(len(feeds)), "utf-8")
        for number, feed in enumerate(feeds):
            _save(work / f"feed-{number}.npz", feed)
        command = [sys.executable, "-P", "-m", "orun.measure.answers", folder]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        if done.returncode:
            said = [line for line in done.stderr.strip().splitlines() if line.strip()]
            raise OrunError(
                f"a new process cannot run {question.model.name} for target '{question.target.name}'",
                why="\n".join(said[-LINES:]) or f"exit status {done.returncode}, and it said nothing",
            )
        found = decode(Found, json.loads((work / "found.json").read_bytes()))
        return Answers(found, [_load(work / f"outputs-{number}.npz") for number in range(len(feeds))])


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    texts = {name: value.astype(np.str_) if value.dtype == object else value for name, value in arrays.items()}
    np.savez(path, **texts)  # type: ignore[arg-type]  # its stub takes no mapping beside `allow_pickle`


def _load(path: Path) -> list[Array]:
    with np.load(path, allow_pickle=False) as archive:
        return [archive[str(number)] for number in range(len(archive.files))]


def _main(work: Path) -> int:
    question = decode(Question, json.loads((work / "question.json").read_bytes()))
    start = perf_counter()
    try:
        session = open_session(question.model, question.target, watched=True)
    except OrunError as error:
        print(error, file=sys.stderr)  # noqa: T201 - to the process that asks
        return 1
    load = perf_counter() - start
    for number in range(json.loads((work / "count.json").read_bytes())):
        with np.load(work / f"feed-{number}.npz", allow_pickle=False) as archive:
            feed = {name: archive[name] for name in archive.files}
        outputs = session.run(None, feed)
        _save(work / f"outputs-{number}.npz", {str(place): np.asarray(value) for place, value in enumerate(outputs)})
    found = Found(load, tuple(placement(session)))
    (work / "found.json").write_text(json.dumps(encode(found)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
