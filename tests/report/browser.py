"""A real browser, driven by its own protocol through two pipes: Chromium without a window.

The messages are JSON that ends with a zero byte: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
HIGH = 10  # file descriptors from there on are none of 3 and 4, which the browser reads and writes
CHUNK = 1 << 16


def find() -> str:
    """The path of a browser; the test that asks is left out where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    return found


class Tab:
    """One page in a browser.

    Attributes:
        complaints: errors on its console, the policy of the page broken among them.
        requests: addresses that it asked for, the page itself and data in it left out.
    """

    def __init__(self, writer: int, reader: int) -> None:
        self._writer, self._reader = writer, reader
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self) -> Self:
        """Make the page, and hear of what happens in it."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def show(
        self, page: Path | str, width: int = 1280, scheme: Literal["light", "dark"] = "light", media: str = ""
    ) -> None:
        """Load a file, or what is at an address, in a page of that width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self._events.clear()
        self.ask("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()

    def evaluate(self, expression: str) -> Any:
        """The value of JavaScript, which the tool may run in the page and the page itself may not."""
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write what the whole page looks like as PNG."""
        done = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(done["data"]))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        text = json.dumps({**message, "sessionId": self._session} if self._session else message)
        os.write(self._writer, text.encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        with suppress(OSError, AssertionError):
            self.ask("Browser.close")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._reader, CHUNK)
            assert chunk, "the browser ended"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._heard(message)
        return message

    def _heard(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        told = event["params"]
        if event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            address = told["request"]["url"]
            if not address.startswith("data:") and address != told["documentURL"]:
                self.requests.append(address)


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A page in a new browser, which keeps what it keeps in that folder."""
    program = find()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high_in, high_out = (fcntl.fcntl(one, fcntl.F_DUPFD, HIGH) for one in (theirs_in, theirs_out))
    os.close(theirs_in)
    os.close(theirs_out)
    started = os.posix_spawn(
        program,
        [program, *OPTIONS, f"--user-data-dir={folder}"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, high_in, 3),
            (os.POSIX_SPAWN_DUP2, high_out, 4),
            *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)),
        ],
    )
    os.close(high_in)
    os.close(high_out)
    tab = Tab(ours_out, ours_in)
    try:
        yield tab.open()
    finally:
        tab.close()
        os.close(ours_out)
        os.close(ours_in)
        os.waitpid(started, 0)
