"""Files from the web, each known by its digest before it is fetched."""

from __future__ import annotations

import hashlib
import http.client
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from orun.errors import UsageError

CHUNK = 1 << 20  # bytes
PATIENCE = 60.0  # seconds without a byte

Progress = Callable[[int, int, str], None]


def download(url: str, path: Path, digest: str, progress: Progress) -> None:
    """Fetch a file, and keep it when its SHA-256 is right.

    Args:
        url: http or https, without credentials in it.
        path: where it goes; its folder is made.
        digest: SHA-256 in hexadecimal.
        progress: told how many bytes have come, of how many.

    Raises:
        UsageError: when the address is of another kind, cannot be read, or holds other bytes.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{url} cannot be fetched", why="only http:// and https:// are")
    if parts.username is not None:  # a token may stand in its place
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise UsageError(f"{plain} was given with credentials", why="they would be stored in keys and records")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = _fetch(url, path, progress)
    except (URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        path.unlink(missing_ok=True)
        if isinstance(error, HTTPError):
            error.close()  # it holds the answer
        raise UsageError(f"{url} cannot be fetched", why=str(getattr(error, "reason", error) or error)) from error
    if found != digest.lower():
        path.unlink()
        raise UsageError(
            f"{url} is not the file that its digest names",
            why=f"SHA-256 is {found}\nexpected {digest}",
            hint="check where the file comes from; write the new digest into the pipeline if it is right",
        )


def _fetch(url: str, path: Path, progress: Progress) -> str:
    hasher = hashlib.sha256()
    request = urllib.request.Request(url, headers={"User-Agent": "orun"})  # noqa: S310 - http and https alone, see _opener
    with _opener().open(request, timeout=PATIENCE) as answer, path.open("wb") as file:
        total, come = int(answer.headers.get("Content-Length") or 0), 0
        while chunk := answer.read(CHUNK):
            hasher.update(chunk)
            file.write(chunk)
            come += len(chunk)
            progress(come, max(total, come), f"fetch {path.name}")
    if total and come < total:
        raise http.client.IncompleteRead(b"", total - come)
    return hasher.hexdigest()


def _opener() -> urllib.request.OpenerDirector:
    """What reads http and https, and follows to nothing else."""
    opener = urllib.request.OpenerDirector()
    handlers: tuple[Any, ...] = (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener
