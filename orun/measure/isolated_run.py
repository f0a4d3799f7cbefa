"""Isolated run: a model's outputs from a process of its own, with its load time and the placement of its nodes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from orun.core.targets import Interpreter, Target
from orun.errors import UsageError
from orun.measure.foreign_process import ForeignProcess, end_process, send_request, serve_requests
from orun.measure.placement import Subgraph, read_placement
from orun.measure.session import open_session
from orun.text.library_messages import shorten_message

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

    Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class IsolatedRun:
    """Result of an isolated run.

    Attributes:
        load: seconds to make the session.
        subgraphs: where its nodes landed.
        outputs: for each feed, in the order of the model's outputs.
    """

    load: float
    subgraphs: Sequence[Subgraph]
    outputs: Sequence[Sequence[Array]]


def run_isolated(model: Path, target: Target, feeds: Sequence[Mapping[str, Array]]) -> IsolatedRun:
    """Open a model in a new process and run it on each feed.

    Raises:
        OrunError: if the model cannot be opened or run, or the process dies.
    """
    process = ForeignProcess(Interpreter(sys.executable), "orun.measure.isolated_run:serve", (model, target))
    try:
        load, subgraphs = send_request(process, process.connection, model.name, "open", ())
        outputs = [send_request(process, process.connection, model.name, "run", (feed,)) for feed in feeds]
    finally:
        end_process(process, process.connection)
    return IsolatedRun(load, subgraphs, outputs)


def serve(connection: Connection, argument: tuple[Path, Target]) -> None:
    """Serve `run_isolated`, which gives the model and its target."""
    model, target = argument
    serve_requests(
        connection,
        _SessionServer(model, target),
        lambda error: UsageError(f"{model.name} does not run", why=shorten_message(str(error))),
    )


class _SessionServer:
    """Holder of the session, with a method for each request."""

    def __init__(self, model: Path, target: Target) -> None:
        self._model = model
        self._target = target
        self._session: InferenceSession

    def open(self) -> tuple[float, list[Subgraph]]:
        start = perf_counter()
        self._session = open_session(self._model, self._target, watched=True)
        load = perf_counter() - start
        return load, read_placement(self._session)

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        return list(self._session.run(None, dict(feed)))
