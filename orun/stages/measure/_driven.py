"""Models under load: sessions in this process, a server that runs already, or one started for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orun.measure.binding import bind_inference
from orun.measure.model_server import SETTINGS, ModelServer
from orun.measure.served_model import ServedModel
from orun.measure.session import open_session
from orun.stages.contract import Context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Feed = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Driven:
    """Requests of the clients to one model, and the process that runs it; None for this one."""

    requests: Sequence[Callable[[], object]]
    process: int | None = None


@dataclass(frozen=True)
class Served:
    """Model on a server, and the server's process; None for one that orun did not start."""

    model: ServedModel
    process: int | None = None


def drive_sessions(
    context: Context, feeds: Mapping[str, Feed], clients: int, sessions: int, *, bound: bool
) -> dict[str, Driven]:
    """Return requests to sessions in this process, which the clients use in turn."""
    target = context.model_target
    driven: dict[str, Driven] = {}
    for role, feed in feeds.items():
        pool = [open_session(context.model(role), target) for _ in range(min(sessions, clients))]
        chosen = [pool[client % len(pool)] for client in range(clients)]
        driven[role] = Driven([bind_inference(session, feed, bound=bound) for session in chosen])
    return driven


def connect(context: Context, url: str, name: str) -> dict[str, Served]:
    """Return the model on a server that runs already.

    Raises:
        StageFailed: if other models are connected, which that server does not have, or the model is not ready.
    """
    if rivals := [role for role in context.inputs if role != "model"]:
        raise context.failed(
            f"`url` is the server of one model, and {', '.join(rivals)} is to be measured too",
            hint="connect a stage of `release/server` at the port `server` in its place, which can serve both",
        )
    model = ServedModel(url, name)
    if not model.is_ready():
        raise context.failed(
            f"the model {name!r} is not ready at {url}",
            hint=f"ask it: curl {url.rstrip('/')}/v2/models/{name}/ready",
        )
    return {"model": Served(model)}


def start_servers(context: Context, folder: Path, servers: ExitStack) -> dict[str, Served]:
    """Start the folder's server for its model, and once for each other model in its place."""
    if not (folder / SETTINGS).is_file():
        raise context.failed(
            "the bundle at the port `server` has no server",
            hint="connect a stage of `release/server`",
        )
    started: dict[str, Served] = {}
    for role in context.inputs:
        log = Path(f"server-{role}.log").absolute()
        model = None if role == "model" else context.model(role)
        server = servers.enter_context(ModelServer(folder, log, model, tell=context.log.info))
        started[role] = Served(server.model, server.pid)
    return started


def bind_requests(
    feeds: Mapping[str, Feed], served: Mapping[str, Served], clients: int, connections: ExitStack
) -> dict[str, Driven]:
    """Return requests over the network, each client's over a connection of its own."""
    driven: dict[str, Driven] = {}
    for role, server in served.items():
        requests = [connections.enter_context(closing(server.model.bind(feeds[role]))) for _ in range(clients)]
        driven[role] = Driven(requests, server.process)
    return driven


def require_agreement(
    context: Context, feeds: Mapping[str, Feed], served: Mapping[str, Served], atol: float, rtol: float
) -> None:
    """Ask each server once, and compare its outputs with those of the model in this process.

    Raises:
        StageFailed: if they disagree.
    """
    for role, server in served.items():
        session = open_session(context.model(role), context.model_target)
        names = [item.name for item in session.get_outputs()]
        answer = server.model.infer(feeds[role])
        for name, value in zip(names, session.run(names, feeds[role]), strict=True):
            if name not in answer:
                raise context.failed(f"the served {role} has no output {name!r}")
            if problem := _describe_difference(value, answer[name], atol, rtol):
                raise context.failed(
                    f"the served {role} disagrees with the {role} in output {name!r}",
                    why=problem,
                    hint="serve the release of this model, or set `atol` and `rtol`",
                )


def _describe_difference(expected: NDArray[Any], value: NDArray[Any], atol: float, rtol: float) -> str:
    """Return how a served value differs; empty if it does not."""
    if expected.shape != value.shape or expected.dtype != value.dtype:
        return f"{value.dtype}{list(value.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        wrong = int((expected != value).sum())
        return f"{wrong} of {value.size} values differ" if wrong else ""
    wide, served = expected.astype(np.float64), value.astype(np.float64)
    close = np.isclose(served, wide, rtol, atol, equal_nan=True)
    if close.all():
        return ""
    worst = np.abs(served[~close] - wide[~close]).max()
    limit = f"{atol:g} + {rtol:g} x |value|"
    return f"{int((~close).sum())} of {value.size} values are further off than {limit}, the worst by {worst:.3g}"
