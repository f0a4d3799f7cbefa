"""Client of object storage over obstore: get, head, put, put if absent.

After connection errors and server errors, requests are repeated with growing pauses for a bounded time. No other module
imports obstore.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from obstore import delete, get, get_range, head, put
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import HTTPStore, from_url

from orun.fs.bounded_reads import is_special
from orun.text.lists import cut

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

T = TypeVar("T")

QUICK, LONG = timedelta(seconds=20), timedelta(seconds=120)  # timeouts of a record, and of a part of an object
RETRIES: RetryConfig = {
    "max_retries": 4,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2.0},
    "retry_timeout": timedelta(seconds=30),
}
PART = 8 << 20  # bytes of one request
PARTS = 9000  # of one upload; S3 allows 10,000
ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "GOOGLE_BASE_URL")  # variables with an address
LONGEST = 300  # characters of an error to show
MACHINE_ROLE = re.compile(r"https?://[^/\s]+/latest/(api/token|meta-data/)")  # on AWS, asked for credentials last
NO_CREDENTIALS = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
UPLOADS = 4  # parts of one object at the same time


class UnreachableError(Exception):
    """The remote gives no answer, or not a usable one."""


class NoFolderError(UnreachableError):
    """The remote is a folder that is not there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"there is no folder {folder}")
        self.folder = folder


class DeniedError(Exception):
    """The remote denies access."""


class Bucket:
    """Bucket, folder or web server with named objects; safe for several threads.

    Args:
        url: its address.
        create: make a folder that is missing. Those above it must be there: a share may not be mounted.

    Attributes:
        ranged: whether parts of an object can be fetched.

    Raises:
        NoFolderError: if there is no such folder.
        DeniedError: if it may not be made.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._folder = Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None
        if self._folder:
            _require_folder(self._folder, create=create)
        self._quick = _request(lambda: _connect(url, QUICK))
        self._long = _request(lambda: _connect(url, LONG))
        self.ranged = not url.startswith(("http://", "https://", "file://"))  # a web server may not support ranges

    def read_size(self, name: str) -> int | None:
        """Return the bytes of an object, or None if it is missing or not a file."""
        if self._is_special(name):
            return None
        meta = _find(lambda: head(self._quick, name))
        return None if meta is None else meta["size"]

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of an object, or None if it is missing.

        Raises:
            ValueError: if it is larger than `limit` bytes, or not a file; then it is not read.
        """
        self._require_file(name)
        result = _find(lambda: get(self._quick, name))
        if result is None:
            return None
        if result.meta["size"] > limit:
            raise ValueError(f"it has {result.meta['size']} bytes, and at most {limit} are allowed")
        return _request(lambda: bytes(result.bytes()))

    def copy(self, name: str, descriptor: int, size: int) -> bool:
        """Write an object of `size` bytes to the start of a file as it arrives; return False if it is missing.

        Raises:
            ValueError: if it has another size, or is not a file.
        """
        self._require_file(name)
        result = _find(lambda: get(self._long, name))
        if result is None:
            return False
        if result.meta["size"] != size:
            raise ValueError(f"it has {result.meta['size']} bytes instead of {size}")
        position = 0
        chunks = iter(result.stream(min_chunk_size=1 << 20))
        while (chunk := _request(lambda: next(chunks, None))) is not None:
            if position + len(chunk) > size:
                raise ValueError(f"it has more than {size} bytes")
            position = _write_at(descriptor, chunk, position)
        return True

    def copy_part(self, name: str, descriptor: int, start: int, end: int) -> bool:
        """Write a part of an object to the same part of a file; return False if the object is missing."""
        data = _find(lambda: get_range(self._long, name, start=start, end=end))
        if data is None:
            return False
        _write_at(descriptor, data, start)
        return True

    def upload(self, name: str, path: str, size: int) -> None:
        """Write a file as an object, atomically, in place of an object of that name."""
        part = max(PART, size // PARTS)
        _send(lambda: put(self._long, name, Path(path), chunk_size=part, max_concurrency=UPLOADS))

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        _find(lambda: delete(self._quick, name))

    def put(self, name: str, data: bytes) -> None:
        """Write an object, atomically, in place of an object of that name."""
        _send(lambda: put(self._quick, name, data))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write an object unless the name is in use; return whether it was written. A folder needs hard links."""
        try:
            _send(lambda: put(self._quick, name, data, mode="create"))
        except AlreadyExistsError:
            return False
        return True

    def _is_special(self, name: str) -> bool:
        """Return whether a name in a folder is a pipe, socket or device, whose opening could wait for ever."""
        return self._folder is not None and is_special(self._folder / name)

    def _require_file(self, name: str) -> None:
        if self._is_special(name):
            raise ValueError("it is a pipe or device, not a file")


def _write_at(descriptor: int, data: ReadableBuffer, position: int) -> int:
    """Write data at a position of a file; return the position after it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        rest, position = rest[written:], position + written
    return position


def _require_folder(folder: Path, *, create: bool) -> None:
    """Make a folder if that is wanted and the one above it is there; raise NoFolderError if it is missing."""
    if create and folder.parent.is_dir():
        _request(lambda: folder.mkdir(exist_ok=True))
    if not folder.is_dir():
        raise NoFolderError(folder.parent if create else folder)


def _connect(url: str, timeout: timedelta) -> ObjectStore:
    """Return obstore's client of a URL, with credentials from the environment."""
    options: ClientConfig = {"timeout": timeout, "allow_http": _allows_http(url)}
    if url.startswith("file://"):
        return from_url(url)
    if url.startswith(("http://", "https://")):
        return HTTPStore.from_url(url, client_options=options, retry_config=RETRIES)
    settings: dict[str, Any] = {"client_options": options, "retry_config": RETRIES}
    return from_url(url, **settings)


def _allows_http(url: str) -> bool:
    """Return whether requests may be unencrypted: only if the user gives such an address."""
    addresses = (url, *(os.environ.get(name, "") for name in ADDRESSES))
    allowed = os.environ.get("AWS_ALLOW_HTTP", "") in ("1", "true") or "AZURE_STORAGE_USE_EMULATOR" in os.environ
    return allowed or any(address.startswith("http://") for address in addresses)


def _find(call: Callable[[], T]) -> T | None:
    """Make a request; return None if there is no object of that name."""
    try:
        return _request(call)
    except FileNotFoundError:
        return None


def _send(call: Callable[[], object]) -> None:
    """Make a request that writes. "Not found" means here that the bucket or folder is missing."""
    try:
        _request(call)
    except FileNotFoundError:
        raise UnreachableError("there is no bucket or folder of that name to write to") from None


def _request(call: Callable[[], T]) -> T:
    """Make a request; turn obstore's errors into ours, without parts that may hold a credential."""
    try:
        return call()
    except AlreadyExistsError:
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise DeniedError(_shorten_error(error)) from None
    except BaseError as error:
        raise UnreachableError(_shorten_error(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreachableError(_shorten_error(error)) from None


def _shorten_error(error: Exception) -> str:
    """Return the first line of an error, without queries of addresses, which may hold a signature."""
    text = str(error).partition("\n")[0]
    if MACHINE_ROLE.search(text):
        return NO_CREDENTIALS
    return cut(re.sub(r"\?\S*", "", text), LONGEST)
