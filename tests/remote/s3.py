"""An S3 server on loopback, in a process of its own."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

SERVER = Path(__file__).with_name("s3_server.py")


@contextmanager
def serving() -> Iterator[int]:
    """The port of a server that ends with the block."""
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin
    assert server.stdout
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait(20)
        server.stdout.close()


def variables(url: str) -> dict[str, str]:
    """What a process needs to know of a server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "password",
        "AWS_REGION": "us-east-1",
    }


def new_bucket(port: int) -> str:
    """The URL of a new bucket."""
    name = f"bucket-{uuid4().hex}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("PUT", f"/{name}")
    assert connection.getresponse().status == http.HTTPStatus.OK
    connection.close()
    return f"s3://{name}/some/path"
