"""A server between a client and a real one, that can fail, stall and die as servers do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, list[tuple[str, str]], bytes]  # status, headers, content


class Server(ThreadingHTTPServer):
    """A server that lets many clients connect at once: those that it turns away try again seconds later."""

    request_queue_size = 128


@dataclass
class Relay:
    """Hands requests on to the server at `port`.

    Attributes:
        port: of the server behind.
        failures: how many of the next requests are answered with `status`.
        status: what these are answered with.
        lives: after how many more requests it is dead; None for never.
        refuse: a method that is answered with 403.
        stalled: uploads wait until this is set, when it is there.
        requests: method and path of each request.
    """

    port: int
    failures: int = 0
    status: int = 500
    lives: int | None = None
    refuse: str = ""
    stalled: threading.Event | None = None
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server = Server(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up
        self.own_port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.own_port}"

    def close(self) -> None:
        """Be gone: connections are refused from now on."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def verdict(self, method: str, path: str) -> int:
        """What to do with a request: 0 to hand it on, -1 to hang up, else a status to answer with."""
        with self._lock:
            self.requests.append(f"{method} {path.partition('?')[0]}")
            if self.lives is not None:
                self.lives -= 1
                if self.lives < 0:
                    return -1
            if self.failures > 0:
                self.failures -= 1
                return self.status
        if method == self.refuse:
            return 403
        if self.stalled and method == "PUT":
            self.stalled.wait(60)
        return 0

    def hand_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """What the server behind answers."""
        behind = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        behind.request(method, path, body, dict(headers))
        response = behind.getresponse()
        answer = response.status, response.getheaders(), response.read()
        behind.close()
        return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = relay.verdict(self.command, self.path)
                if status == -1:
                    self.close_connection = True
                    return
                headers, content = [("Content-Length", "0")], b""
                if not status:
                    sent = dict(self.headers.items())
                    status, headers, content = relay.hand_on(self.command, self.path, sent, body)
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                if "content-length" not in {name.lower() for name, _ in headers}:  # it came in chunks
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                if self.command != "HEAD" and len(content) < int(dict(headers).get("Content-Length", 0)):
                    self.close_connection = True  # who waits for the rest is told that there is none

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                pass

        return Handler
