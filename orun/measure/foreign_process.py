"""Foreign process: a process of another environment's Python that serves a model over a connection.

Messages are pickled. Both processes belong to one user and run the same code of orun.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from orun.core.targets import Interpreter, Target
from orun.errors import OrunError, UsageError
from orun.measure.framework_model import FrameworkSession, Opener, Value
from orun.measure.session import open_session_or_source
from orun.text.library_messages import shorten_message

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

CLOSE_SECONDS = 10.0


class ForeignProcess:
    """Process of another Python that serves a connection, with the needed part of `multiprocessing.Process`.

    Args:
        interpreter: path of the other Python.
        serve: `module:function` of orun, called there as serve(connection, argument).
        argument: the second argument of `serve`.
    """

    def __init__(self, interpreter: Interpreter, serve: str, argument: object) -> None:
        ours, theirs = socket.socketpair()
        variables = dict(os.environ)
        if interpreter.path is not None:
            variables["PYTHONPATH"] = interpreter.path
        with theirs:
            self._process = subprocess.Popen(
                [interpreter.python, "-P", "-m", "orun.measure.foreign_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=variables,
            )
        self.connection = Connection(ours.detach())
        self.connection.send(serve)
        self.connection.send(argument)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._process.poll() is None

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, at most `seconds`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End it."""
        self._process.kill()


class RemoteSession:
    """Session in a process of its own, with the part of `InferenceSession` that accuracy measurements use.

    Args:
        model: the ONNX model.
        target: where it runs, with the Python of its process; that of this process when it names none.
        source: opens the model of another framework that runs in place of the ONNX model.

    Attributes:
        process: the process.
        framework: what runs the model if not ONNX Runtime: `PyTorch 2.13.0, eager`.
    """

    def __init__(self, model: Path, target: Target, source: Opener | None = None) -> None:
        interpreter = target.interpreter or Interpreter(sys.executable)
        self._title = f"a model of another {'environment' if target.interpreter else 'framework'}"
        self.process = ForeignProcess(
            interpreter, "orun.measure.foreign_process:serve_session", (model, target, source)
        )
        try:
            self.framework: str = self._ask("open")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        end_process(self.process, self.process.connection)

    def get_inputs(self) -> list[Value]:
        """Return the model's inputs."""
        inputs: list[Value] = self._ask("inputs")
        return inputs

    def get_outputs(self) -> list[Value]:
        """Return the model's outputs."""
        outputs: list[Value] = self._ask("outputs")
        return outputs

    def run(self, outputs: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        """Return the values of these outputs; of all when None."""
        values: list[Any] = self._ask("run", outputs, dict(feed))
        return values

    def _ask(self, request: str, *arguments: Any) -> Any:
        return send_request(self.process, self.process.connection, self._title, request, arguments)


def end_process(process: ForeignProcess | BaseProcess, connection: Connection) -> None:
    """End a process that serves a connection; kill it if it does not end soon."""
    with suppress(OSError):  # the process may have died
        connection.send(None)
    connection.close()
    process.join(CLOSE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def send_request(
    process: ForeignProcess | BaseProcess, connection: Connection, title: str, request: str, arguments: tuple[Any, ...]
) -> Any:
    """Send a request to a process that serves a connection, and return its answer.

    Args:
        process: the process.
        connection: to it.
        title: description of the process, for the error.
        request: name of the request.
        arguments: arguments of the request.

    Raises:
        OrunError: if the process died; or the error that it answered.
    """
    try:
        connection.send((request, arguments))
        succeeded, answer = connection.recv()
    except (EOFError, OSError) as error:
        process.join(CLOSE_SECONDS)
        why = f"exit status {process.exitcode} in request {request!r}"
        raise OrunError(f"the process that runs {title} died", why=why) from error
    if not succeeded:
        raise answer
    return answer


def serve_session(connection: Connection, argument: tuple[Path, Target, Opener | None]) -> None:
    """Serve a `RemoteSession`.

    Args:
        connection: to the other process.
        argument: the arguments of the session.
    """
    model, target, source = argument
    server = _SessionServer(model, target, source)
    serve_requests(
        connection,
        server,
        lambda error: UsageError(f"{server.title} does not run", why=shorten_message(str(error))),
    )


def serve_requests(connection: Connection, server: object, build_error: Callable[[Exception], OrunError]) -> None:
    """Answer requests until the other process ends the connection or is gone.

    Args:
        connection: to the other process.
        server: has a method for each request.
        build_error: turns an error of a library into the error that the other process raises.
    """
    while (message := _receive(connection)) is not None:
        request, arguments = message
        try:
            answer = True, getattr(server, request)(*arguments)
        except OrunError as error:
            answer = False, error
        except Exception as error:  # noqa: BLE001 - the runtime's errors share no other base
            traceback.print_exc()
            answer = False, build_error(error)
        connection.send(answer)


class _SessionServer:
    """Holder of the session, with a method for each request."""

    def __init__(self, model: Path, target: Target, source: Opener | None) -> None:
        self._model = model
        self._target = target.here
        self._source = source
        self._session: InferenceSession | FrameworkSession
        self.title = model.name  # for errors

    def open(self) -> str:
        self._session = open_session_or_source(self._model, self._target, self._source)
        if not isinstance(self._session, FrameworkSession):
            return ""
        self.title = f"the source model ({self._session.title})"
        return self._session.title

    def inputs(self) -> list[Value]:
        return _build_values(self._session.get_inputs())

    def outputs(self) -> list[Value]:
        return _build_values(self._session.get_outputs())

    def run(self, outputs: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        return list(self._session.run(outputs, feed))


def _build_values(items: Sequence[Any]) -> list[Value]:
    return [Value(item.name, item.type, list(item.shape)) for item in items]


def _receive(connection: Connection) -> tuple[str, tuple[Any, ...]] | None:
    """Return the next request; None if the other process ends the connection or is gone."""
    try:
        message: tuple[str, tuple[Any, ...]] | None = connection.recv()
    except EOFError:
        return None
    return message


def _main(descriptor: int) -> None:
    import importlib

    connection = Connection(descriptor)
    module, _, function = connection.recv().partition(":")
    getattr(importlib.import_module(module), function)(connection, connection.recv())


if __name__ == "__main__":
    _main(int(sys.argv[1]))
