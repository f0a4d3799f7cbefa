"""The client of a served model: tensors as bytes, and servers that do not answer as they should."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from orun.errors import UsageError
from orun.measure.model_server import find_free_port
from orun.measure.served_model import ServedModel

FEED = {"x": np.eye(2, dtype=np.float32)}
HEAD = {"outputs": [{"name": "y", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 11}}]}
TEXTS = b"\x01\x00\x00\x00a\x02\x00\x00\x00\xc3\xbc"
ANSWERS = {
    "refused": (400, b'{"error": "no such input"}'),
    "page": (502, b"<html>Bad Gateway</html>"),
    "else": (200, b'{"outputs": [{"name": "y"}]}'),
    "deep": (200, b"[" * 100_000),
    "plain": (200, b'{"outputs": [{"name": "y", "datatype": "INT64", "shape": [2, 1], "data": [3, 4]}]}'),
    "texts": (200, json.dumps(HEAD).encode() + TEXTS),
}


class Handler(BaseHTTPRequestHandler):
    """A server that answers as its model's name says, and keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    bodies: list[tuple[str, bytes]] = []  # noqa: RUF012 - of the one server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append((self.headers["Inference-Header-Content-Length"], body))
        status, content = ANSWERS[self.path.split("/")[-2]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if content.endswith(TEXTS):
            self.send_header("Inference-Header-Content-Length", str(len(content) - len(TEXTS)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_request_holds_its_tensors_as_bytes(url: str) -> None:
    texts = np.array([["ü", "ab"]], dtype=object)
    answer = ServedModel(url, "plain").infer(FEED | {"t": texts})
    assert answer["y"].tolist() == [[3], [4]]
    length, body = Handler.bodies[-1]
    assert json.loads(body[: int(length)]) == {
        "inputs": [
            {"name": "x", "shape": [2, 2], "datatype": "FP32", "parameters": {"binary_data_size": 16}},
            {"name": "t", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": 12}},
        ],
        "parameters": {"binary_data_output": True},
    }
    assert body[int(length) :] == FEED["x"].tobytes() + b"\x02\x00\x00\x00\xc3\xbc\x02\x00\x00\x00ab"


def test_texts_that_come_as_bytes(url: str) -> None:
    assert ServedModel(url, "texts").infer(FEED)["y"].tolist() == ["a", "ü"]


def test_a_connection_that_the_server_closed_while_it_was_idle(url: str) -> None:
    """A server closes idle connections after a while; the next request then meets a closed one."""
    with closing(ServedModel(url, "plain").bind(FEED)) as request:
        first = request()
        connection = request.connection.sock
        assert connection is not None
        connection.shutdown(socket.SHUT_RDWR)
        assert request() == first


def test_letters_of_a_path_that_are_not_ascii(url: str) -> None:
    assert ServedModel(f"{url}/modèle", "plain").infer(FEED)["y"].tolist() == [[3], [4]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refused", "the server at {url} refuses a request to the model 'refused'\n  400: no such input"),
        ("page", "the server at {url} refuses a request to the model 'page'\n  502: <html>Bad Gateway</html>"),
        ("else", "the server at {url} does not answer as the protocol says\n  KeyError: 'datatype'"),
    ],
)
def test_an_answer_that_is_none(url: str, name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ServedModel(url, name).infer(FEED)
    assert str(caught.value) == message.format(url=url)


def test_an_answer_that_is_too_deep(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        ServedModel(url, "deep").infer(FEED)
    assert caught.value.problem == f"the server at {url} does not answer as the protocol says"
    assert caught.value.why.startswith("RecursionError: ")  # Python's own words differ by its version


def test_no_server() -> None:
    url = f"http://127.0.0.1:{find_free_port()}"
    model = ServedModel(url, "any")
    assert not model.is_ready()
    with pytest.raises(UsageError) as caught:
        model.infer(FEED)
    assert str(caught.value) == f"no server answers at {url}\n  [Errno 111] Connection refused"


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://host", "http://", "http://host:80a", "http://host:99999", "http://[::1", "http://a b"],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        ServedModel(url, "any")
    assert str(caught.value) == f"{url!r} is not an address\n  hint: write it as `http://host:8080`"
