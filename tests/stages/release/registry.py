"""An OCI registry on loopback: blobs and manifests by the distribution specification, as far as a push goes.

Where it has a login it asks for that, or for a token that the login is given for one scope.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")
UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/")
MANIFEST = re.compile(r"/v2/(.+)/manifests/([^/]+)")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """A server that refuses what does not have the digest that it is said to have.

    Args:
        login: `user:password`; empty where everybody may push.
        tokens: whether requests are signed by a token, not by the login.
    """

    def __init__(self, login: str = "", *, tokens: bool = False) -> None:
        self.login = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        self.tokens = tokens
        self.granted: list[str] = []
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], bytes] = {}
        handler = type("Bound", (Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def manifest(self, name: str, tag: str) -> dict[str, Any]:
        """What was pushed under a tag."""
        document: dict[str, Any] = json.loads(self.manifests[name, tag])
        return document

    def digest(self, name: str, tag: str) -> str:
        """Its digest."""
        return _digest(self.manifests[name, tag])

    def blob(self, digest: str) -> bytes:
        """A layer."""
        return self.blobs[digest]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers for the registry that the server is of."""

    registry: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
        pass

    def parse_request(self) -> bool:
        """Refuse what is not signed before anything else is looked at."""
        return super().parse_request() and self._is_signed()

    def _is_signed(self) -> bool:
        registry, path = self.registry, urlsplit(self.path)
        credentials = self.headers.get("Authorization", "")
        if path.path == "/token":
            (scope,) = parse_qs(path.query)["scope"]
            if credentials == registry.login:
                registry.granted.append(scope)
                self._answer(200, json.dumps({"token": scope}).encode())
            else:
                self._answer(401)
            return False
        name = self.path.removeprefix("/v2/").partition("/blobs/")[0].partition("/manifests/")[0]
        scope = f"repository:{name}:pull{'' if self.command in ('GET', 'HEAD') else ',push'}"
        bearer = f'Bearer realm="http://{registry.address}/token",service="registry",scope="{scope}"'
        wanted, challenge = (f"Bearer {scope}", bearer) if registry.tokens else (registry.login, 'Basic realm="here"')
        if not registry.login or credentials.startswith(wanted):
            return True
        self._body()
        self._answer(401, headers={"Www-Authenticate": challenge})
        return False

    def do_HEAD(self) -> None:
        match = BLOB.fullmatch(self.path)
        self._answer(200 if match and match[2] in self.registry.blobs else 404)

    def do_GET(self) -> None:
        if match := MANIFEST.fullmatch(self.path):
            data = self.registry.manifests.get((match[1], match[2]))
            headers = {"Docker-Content-Digest": _digest(data)} if data else {}
            self._answer(200 if data else 404, data or b"", headers)
        else:
            self._answer(404)

    def do_POST(self) -> None:
        self._body()
        self._answer(202, headers={"Location": f"{urlsplit(self.path).path}session"})

    def do_PUT(self) -> None:
        data, parts = self._body(), urlsplit(self.path)
        if match := MANIFEST.fullmatch(parts.path):
            self.registry.manifests[match[1], match[2]] = data
            self._answer(201, headers={"Docker-Content-Digest": _digest(data)})
            return
        (claimed,) = parse_qs(parts.query)["digest"]
        if claimed != _digest(data):
            self._answer(400)
            return
        self.registry.blobs[claimed] = data
        self._answer(201)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
