"""Download of files with a digest that is known beforehand."""

from __future__ import annotations

import hashlib
import http.client
import string
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit

from orun.errors import UsageError

CHUNK = 1 << 20  # bytes
KILOBYTE = 1000
PATIENCE = 60.0  # seconds without a byte

Progress = Callable[[int, int, str], None]


def download(url: str, path: Path, digest: str, progress: Progress) -> None:
    """Fetch a file, and keep it if its SHA-256 is right.

    Args:
        url: http or https, without credentials.
        path: destination; its folder is made.
        digest: SHA-256 in hexadecimal.
        progress: called with the bytes received and the total.

    Raises:
        UsageError: when the URL has another scheme, cannot be read, or yields other bytes.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{url} cannot be fetched", why="only http:// and https:// are")
    if parts.username is not None:  # it may be a token
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise UsageError(f"{plain} was given with credentials", why="they would be stored in keys and records")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        actual = _fetch(url, path, progress)
    except (URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        path.unlink(missing_ok=True)
        if isinstance(error, HTTPError):
            error.close()  # it holds the response
        raise UsageError(f"{url} cannot be fetched", why=str(getattr(error, "reason", error) or error)) from error
    if actual != digest.lower():
        path.unlink()
        raise build_digest_error(url, actual, digest)


def build_digest_error(name: str, actual: str, digest: str) -> UsageError:
    """Return the error for a file, by its name or address, that has another digest than the pipeline says."""
    return UsageError(
        f"{name} is not the file that its digest names",
        why=f"SHA-256 is {actual}\nexpected {digest}",
        hint="check where the file comes from; write the new digest into the pipeline if it is right",
    )


def _fetch(url: str, path: Path, progress: Progress) -> str:
    hasher = hashlib.sha256()
    spelled = quote(url, safe=string.punctuation)  # letters that are not ASCII are sent as bytes of UTF-8
    request = urllib.request.Request(spelled, headers={"User-Agent": "orun"})  # noqa: S310 - `download` looked at the scheme
    with urllib.request.urlopen(request, timeout=PATIENCE) as response, path.open("wb") as file:  # noqa: S310 - the same
        total, received = int(response.headers.get("Content-Length") or 0), 0
        while chunk := response.read(CHUNK):
            hasher.update(chunk)
            file.write(chunk)
            received += len(chunk)
            progress(received // KILOBYTE, max(total, received) // KILOBYTE, f"kB of {path.name}")
    if total and received < total:
        raise http.client.IncompleteRead(b"", total - received)
    return hasher.hexdigest()
