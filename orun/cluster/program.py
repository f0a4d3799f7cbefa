"""Programs that import Ray, seen from the process that starts them: the relay of a run, the member of an agent."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import IO, cast

from orun.cluster.messages import Message, parse
from orun.cluster.settings import HeadError, check_head, check_ray, check_token, ray_environment

Receiver = Callable[[Message | None], None]
START_PATIENCE = 120.0  # seconds for Ray's import and for this machine to join the cluster
ANSWER_PATIENCE = 60.0  # seconds for the answer to a question; the end of the head is noticed sooner
END_PATIENCE = 15.0  # seconds for a program to end
TAIL = 3  # lines of a log in an error


class Program:
    """Program that is connected to a cluster.

    Args:
        module: its module.
        address: of the head.
        arguments: its arguments after the address.
        log: takes what Ray prints.
        on_message: called in a thread of its own with each message after the first; with None at the end.
        environment: its environment, of `ray_environment`.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used.
    """

    def __init__(
        self,
        module: str,
        address: str,
        arguments: tuple[str, ...],
        log: Path,
        on_message: Receiver,
        environment: Mapping[str, str],
    ) -> None:
        check_ray()
        check_token(address, environment)
        check_head(address)
        self._address = address
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, address, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C reaches orun alone
            )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        self._first: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(on_message,), name=module, daemon=True)
        self._reader.start()
        try:
            self._check_start()
        except HeadError:
            self.close()
            raise

    def _read(self, on_message: Receiver) -> None:
        report: Receiver = self._first.put
        for line in self._output:
            report(parse(line))
            report = on_message
        report(None)

    def _check_start(self) -> None:
        """Wait until the program is connected; HeadError if it is not."""
        try:
            first = self._first.get(timeout=START_PATIENCE)
        except queue.Empty:
            hint = f"Its log: {self._log}"
            raise HeadError(f"the head at {self._address} does not answer", hint=hint) from None
        if error := self.error_of(first):
            raise error

    def error_of(self, message: Message | None) -> HeadError | None:
        """Return the error that a message is, if it is one; None stands for the program's end."""
        if message is None:
            return HeadError(f"the connection to the head at {self._address} has ended", why=self._log_tail())
        return HeadError(message.failed, why=message.why, hint=message.hint) if message.failed else None

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])
        return ""

    def ask(self) -> None:
        """Send a question. The program's end is a message."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._input.fileno(), b"\n")

    def close(self) -> None:
        """End the program."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_PATIENCE)
        self._output.close()


class Relay:
    """Relay to the agents of a cluster.

    Args:
        address: of the head.
        folder: empty folder for its sockets and logs; its path is short, as a socket's must be.

    Attributes:
        lost: why each machine that was lost cannot be reached any more.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self.lost: dict[str, str] = {}
        self._answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._sockets: Mapping[str, str] = {}
        log = folder / "relay.log"
        self._address = address
        self._program = Program("orun.cluster.relay", address, (str(folder),), log, self._note, ray_environment())

    def _note(self, message: Message | None) -> None:
        if message and message.lost:
            self.lost[message.lost] = message.why
        else:
            self._answers.put(message)

    def sockets(self) -> Mapping[str, str]:
        """Return the path of the socket of each machine that is there.

        Raises:
            HeadError: if the relay or the head has ended, or does not answer.
        """
        self.last_sockets()  # an earlier answer is none to this question
        until = monotonic() + ANSWER_PATIENCE
        while True:
            try:
                if self._take(self._answers.get(timeout=max(until - monotonic(), 0.0))):
                    return self._sockets
            except queue.Empty:
                raise HeadError(f"the head at {self._address} does not answer") from None

    def last_sockets(self) -> Mapping[str, str]:
        """Return what `sockets` returns, as the last answer had it, and ask again. Never waits.

        Raises:
            HeadError: if the relay or the head has ended.
        """
        self._program.ask()
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._answers.get_nowait())
        return self._sockets

    def _take(self, message: Message | None) -> bool:
        """Take a message; return whether it has the machines that are there; HeadError if it is an error."""
        if error := self._program.error_of(message):
            self._answers.put(message)  # for the next question
            raise error
        if message is None or message.sockets is None:
            return False
        self._sockets = message.sockets
        return True

    def close(self) -> None:
        """End the relay."""
        self._program.close()
