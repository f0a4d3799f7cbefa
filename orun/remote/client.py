"""The run's end of the connection to the process that transfers; that process starts with the first request."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Mapping
from time import sleep
from typing import IO, TYPE_CHECKING, Any

from orun.core.serialization import encode
from orun.errors import UsageError
from orun.executors.local.channel import Channel
from orun.remote.settings import Settings

if TYPE_CHECKING:
    import subprocess

PATIENCE = 10.0  # seconds that a killed process may take to be gone
LAST_WORDS = 2000  # bytes of what a broken process printed that are shown


class BrokenError(Exception):
    """The process that transfers has ended by itself; the message is what it said last."""


class Client:
    """Sends requests and gathers answers; only `wait` and `close` wait, and `ask` until the process has started."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._log: IO[bytes] | None = None
        self._count = 0
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._refusal: tuple[str, str, str] | None = None  # an error of the settings: what, why, hint

    def ask(self, message: Mapping[str, Any]) -> int:
        """Send a request; the number to get its answer by."""
        self._count += 1
        (self._channel or self._start()).send({**message, "number": self._count})
        return self._count

    def answer(self, number: int) -> Mapping[str, Any] | None:
        """The answer to a request, once; None while it is not there.

        Raises:
            BrokenError: when none will ever come.
            UsageError: when the process refuses the settings.
        """
        if number not in self._answers:
            self._hear()
        if number in self._answers:
            return self._answers.pop(number)
        if self._refusal:
            what, why, hint = self._refusal
            raise UsageError(what, why=why, hint=hint)
        if self._channel is None or self._channel.closed:
            raise BrokenError(self._last_words())
        return None

    def wait(self, timeout: float) -> None:
        """Wait until something arrives, at most so many seconds."""
        if self._channel is None or self._channel.closed:
            sleep(timeout)
            return
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        if poll.poll(timeout * 1000):
            self._hear()  # also what nobody asks for any more: it would end every later wait at once

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._log is not None:
            with contextlib.suppress(OSError):  # a full disk: nobody reads it any more
                self._log.close()
            self._log = None

    def _start(self) -> Channel:
        import subprocess
        import tempfile

        ours, theirs = Channel.pair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orun.remote.agent", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C reaches the run alone
        )
        theirs.close()
        ours.send(encode(self._settings))
        self._channel = ours
        return ours

    def _hear(self) -> None:
        """Take what has arrived."""
        if self._channel is None:
            return
        for message in self._channel.messages():
            if "refused" in message:
                self._refusal = message["refused"]
            else:
                self._answers[message["number"]] = message

    def _last_words(self) -> str:
        if self._process is None or self._log is None:
            return "it was ended"
        with contextlib.suppress(OSError):
            self._log.seek(max(self._log.seek(0, os.SEEK_END) - LAST_WORDS, 0))
            lines = self._log.read().decode(errors="replace").split("\n")
            if said := [line for line in lines if line.strip()]:
                return said[-1].strip()
        return f"exit status {self._process.wait(PATIENCE)}"
