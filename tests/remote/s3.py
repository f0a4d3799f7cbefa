"""An S3 server on loopback, in a process of its own."""

from __future__ import annotations

import http.client
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

from tests.remote.emulator import listening

SERVER = Path(__file__).with_name("s3_server.py")


def command(port: int) -> list[str]:
    """The command that serves at a port."""
    return [sys.executable, str(SERVER), str(port)]


def serving() -> AbstractContextManager[int]:
    """The port of a server that ends with the block."""
    return listening(command)


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
