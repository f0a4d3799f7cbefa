"""Microsoft's emulator of Azure Blob Storage, where it is installed: npm install --global azurite."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import shutil
from email.utils import formatdate
from pathlib import Path

PROGRAM = shutil.which("azurite-blob")
# The account of every emulator, in Microsoft's documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2023-11-03"


def command(folder: Path, port: int) -> list[str]:
    """The command that serves at a port, and keeps blobs in a folder."""
    assert PROGRAM
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    return [PROGRAM, *options, "--location", str(folder), "--blobPort", str(port)]


def make_container(port: int, name: str) -> None:
    """Make a container: a request that is signed with the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    lines = [f"{key}:{value}" for key, value in headers.items()]
    signed = "\n".join(["PUT", *([""] * 11), *lines, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"])
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    path = f"/{ACCOUNT}/{name}?restype=container"
    connection.request("PUT", path, headers=headers | {"Authorization": f"SharedKey {ACCOUNT}:{signature}"})
    assert connection.getresponse().status == http.HTTPStatus.CREATED
    connection.close()
