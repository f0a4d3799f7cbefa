"""Program that imports Ray, seen from the process that starts it: the lister of a run, the member of an agent."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, cast

from orun.cluster.messages import Message, parse
from orun.cluster.settings import HeadError, check_head, check_ray, check_token

START_PATIENCE = 240.0  # seconds for Ray's import and for this machine to join the cluster
END_PATIENCE = 15.0  # seconds for a program to end
TAIL = 3  # lines of a log in an error


class Program:
    """Program that is connected to a cluster.

    `log` takes what Ray prints; `environment` is that of `build_environment`.

    Attributes:
        host: address of this machine in the cluster.
        on_message: called in another thread when there is a message, or the program has ended.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used.
    """

    def __init__(
        self, module: str, address: str, arguments: tuple[str, ...], log: Path, environment: Mapping[str, str]
    ) -> None:
        check_ray()
        check_token(address, environment)
        check_head(address)
        self.on_message: Callable[[], None] = lambda: None
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
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # None at the program's end
        self._reader = threading.Thread(target=self._read, name=module, daemon=True)
        self._reader.start()
        try:
            self.host = self.answer(START_PATIENCE).host
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        for line in self._output:
            self._messages.put(parse(line))
            self.on_message()
        self._messages.put(None)
        self.on_message()

    def tell(self, line: str) -> None:
        """Send a line. If the program has ended, the next message says so."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._input.fileno(), f"{line}\n".encode())

    def answer(self, timeout: float) -> Message:
        """Wait for the next message.

        Raises:
            HeadError: if it is an error, the program has ended, or there is none in time.
        """
        try:
            return self._check(self._messages.get(timeout=timeout))
        except queue.Empty:
            hint = f"Its log: {self._log}"
            raise HeadError(f"the head at {self._address} does not answer", hint=hint) from None

    def poll(self) -> Message | None:
        """Return the next message if it is there; HeadError if it is an error, or the program has ended."""
        try:
            return self._check(self._messages.get_nowait())
        except queue.Empty:
            return None

    def _check(self, message: Message | None) -> Message:
        if message is not None and not message.failed:
            return message
        self._messages.put(message)  # for the next question
        if message is None:
            raise HeadError(f"the connection to the head at {self._address} has ended", why=self._read_log_tail())
        raise HeadError(message.failed, why=message.why, hint=message.hint)

    def _read_log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])
        return ""

    def close(self) -> None:
        """End the program."""
        self.on_message = lambda: None
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_PATIENCE)
        self._output.close()
