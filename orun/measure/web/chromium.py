"""Chromium without a window, driven by its own protocol through two pipes.

The messages are JSON that ends with a zero byte: https://chromedevtools.github.io/devtools-protocol/. The browser keeps
its files in the folder that it is given, reads no settings of the user, and ends when the pipes are closed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orun.errors import OrunError

with suppress(ModuleNotFoundError):  # Windows
    import fcntl

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
LOG = "chromium.log"
HIGH = 10  # file descriptors from there on are none of 3 and 4, which the browser reads and writes
CHUNK = 1 << 16


class Chromium:
    """A page in a new browser; a context manager.

    Args:
        program: path of the browser.
        folder: where it keeps its files.

    Attributes:
        complaints: errors that the page wrote to its console or did not catch, and what the browser itself has to say
            there, such as on the security policy.
        requests: addresses that the page asked for, without itself and data in it.
        events: what the browser told since the page was loaded.

    Raises:
        OrunError: if it does not start, or ends.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._folder = folder
        self._buffer = b""
        self._number = 0
        self._session = ""
        folder.mkdir(parents=True, exist_ok=True)
        self._process, self._writer, self._reader = _start(program, folder)

    def __enter__(self) -> Self:
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, address: str) -> None:
        """Load a page, and wait until it and its scripts have loaded."""
        self.events.clear()
        done = self.ask("Page.navigate", url=address)
        if done.get("errorText"):
            raise OrunError(f"Chromium cannot load {address}", why=done["errorText"])
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page, or of the promise that it is.

        Raises:
            OrunError: if it throws.
        """
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise OrunError("a script failed in Chromium", why=details.get("exception", details).get("description", ""))
        return done["result"].get("value")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        text = json.dumps({**message, "sessionId": self._session} if self._session else message)
        self._write(text.encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise OrunError(f"Chromium refuses {method}", why=answer["error"]["message"])
                result: dict[str, Any] = answer["result"]
                return result

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        with suppress(OSError, OrunError):
            self.ask("Browser.close")
        os.close(self._writer)
        os.close(self._reader)
        os.waitpid(self._process, 0)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._writer, view) :]
        except BrokenPipeError as error:
            raise self._build_end_error() from error

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._reader, CHUNK)
            if not chunk:
                raise self._build_end_error()
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._hear(message)
        return message

    def _hear(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        params = event["params"]
        if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
            shown = [argument.get("value", argument.get("description", "")) for argument in params["args"]]
            self.complaints.append(" ".join(map(str, shown)))
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith("data:") and address != params["documentURL"]:
                self.requests.append(address)

    def _build_end_error(self) -> OrunError:
        lines = (self._folder / LOG).read_text("utf-8", "replace").strip().splitlines()
        return OrunError("Chromium ended", why="\n".join(lines[-3:]))


def _start(program: str, folder: Path) -> tuple[int, int, int]:
    """Start the browser; return its process id and the descriptors to write to it and to read from it."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high_in, high_out = (fcntl.fcntl(end, fcntl.F_DUPFD, HIGH) for end in (theirs_in, theirs_out))
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    process = os.posix_spawn(
        program,
        [program, *OPTIONS, f"--user-data-dir={folder}"],
        os.environ | {"HOME": str(folder)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, high_in, 3),
            (os.POSIX_SPAWN_DUP2, high_out, 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
    )
    for end in (theirs_in, theirs_out, high_in, high_out, log):
        os.close(end)
    return process, ours_out, ours_in
