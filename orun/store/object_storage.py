"""Client of object storage, over obstore: get, head, put, put if absent.

Requests are tried again after connection errors and answers of the server's fault, with growing pauses, for a bounded
time. The only module that imports obstore.
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

from orun.fs.observed_state import is_special

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

T = TypeVar("T")

QUICK, LONG = timedelta(seconds=20), timedelta(seconds=120)  # for a record, and for a part of an object
RETRIES: RetryConfig = {
    "max_retries": 4,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2.0},
    "retry_timeout": timedelta(seconds=30),
}
PART = 8 << 20  # bytes of one request
PARTS = 9000  # of one upload: S3 takes no more than 10,000
ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "GOOGLE_BASE_URL")  # variables that hold one
LONGEST = 300  # characters of an error that are told
UPLOADS = 4  # parts of one object at the same time


class UnreachableError(Exception):
    """The remote gives no answer, or one that is no use."""


class DeniedError(Exception):
    """The remote does not let us do that."""


class Bucket:
    """A remote place; safe for several threads."""

    def __init__(self, url: str) -> None:
        self._quick = _told(lambda: _connect(url, QUICK))
        self._long = _told(lambda: _connect(url, LONG))
        self._folder = Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None
        self.ranged = not url.startswith(("http://", "https://", "file://"))  # a web server may not know of ranges

    def size(self, name: str) -> int | None:
        """Bytes of what has that name, or None when nothing has, or no file."""
        if self._is_special(name):
            return None
        meta = _found(lambda: head(self._quick, name))
        return None if meta is None else meta["size"]

    def read(self, name: str, limit: int) -> bytes | None:
        """What has that name, or None when nothing has.

        Raises:
            ValueError: when it is larger than `limit` bytes, or no file; it is not read then.
        """
        self._require_file(name)
        result = _found(lambda: get(self._quick, name))
        if result is None:
            return None
        if result.meta["size"] > limit:
            raise ValueError(f"it has {result.meta['size']} bytes, and {limit} are the most")
        return _told(lambda: bytes(result.bytes()))

    def copy(self, name: str, descriptor: int, size: int) -> bool:
        """Write what has that name, `size` bytes, to the start of a file as it arrives; False when nothing has it.

        Raises:
            ValueError: when it has another size, or is no file.
        """
        self._require_file(name)
        result = _found(lambda: get(self._long, name))
        if result is None:
            return False
        if result.meta["size"] != size:
            raise ValueError(f"it has {result.meta['size']} bytes in the place of {size}")
        position = 0
        chunks = iter(result.stream(min_chunk_size=1 << 20))
        while (chunk := _told(lambda: next(chunks, None))) is not None:
            if position + len(chunk) > size:
                raise ValueError(f"it has more than {size} bytes")
            position = _write_at(descriptor, chunk, position)
        return True

    def copy_part(self, name: str, descriptor: int, start: int, end: int) -> bool:
        """Write some bytes of what has that name to the same place of a file; False when nothing has that name."""
        data = _found(lambda: get_range(self._long, name, start=start, end=end))
        if data is None:
            return False
        _write_at(descriptor, data, start)
        return True

    def upload(self, name: str, path: str, size: int) -> None:
        """Give a file's content that name, whatever had it before; all of it is there afterwards, or nothing."""
        part = max(PART, size // PARTS)
        _sent(lambda: put(self._long, name, Path(path), chunk_size=part, max_concurrency=UPLOADS))

    def remove(self, name: str) -> None:
        """Remove what has that name, if anything has."""
        _found(lambda: delete(self._quick, name))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Give some bytes a name that nothing has; False when something has it, which stays."""
        try:
            _sent(lambda: put(self._quick, name, data, mode="create"))
        except AlreadyExistsError:
            return False
        return True

    def _is_special(self, name: str) -> bool:
        """Whether a pipe, socket or device has a name in a folder: to open it could wait for ever."""
        return self._folder is not None and is_special(self._folder / name)

    def _require_file(self, name: str) -> None:
        if self._is_special(name):
            raise ValueError("it is a pipe or device, not a file")


def _write_at(descriptor: int, data: ReadableBuffer, position: int) -> int:
    """Write all of it to a place of a file; the place behind it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        rest, position = rest[written:], position + written
    return position


def _connect(url: str, timeout: timedelta) -> ObjectStore:
    """The store of an URL, with credentials from the environment."""
    options: ClientConfig = {"timeout": timeout, "allow_http": _may_be_plain(url)}
    if url.startswith("file://"):
        return from_url(url, mkdir=True)
    if url.startswith(("http://", "https://")):
        return HTTPStore.from_url(url, client_options=options, retry_config=RETRIES)
    settings: dict[str, Any] = {"client_options": options, "retry_config": RETRIES}
    return from_url(url, **settings)


def _may_be_plain(url: str) -> bool:
    """Whether requests may go unencrypted: only where the user names an address of that kind."""
    named = (url, *(os.environ.get(name, "") for name in ADDRESSES))
    wanted = os.environ.get("AWS_ALLOW_HTTP", "") in ("1", "true") or "AZURE_STORAGE_USE_EMULATOR" in os.environ
    return wanted or any(one.startswith("http://") for one in named)


def _found(request: Callable[[], T]) -> T | None:
    """The answer to a request, or None when there is nothing of that name."""
    try:
        return _told(request)
    except FileNotFoundError:
        return None


def _sent(request: Callable[[], object]) -> None:
    """Carry out a request that writes; where nothing can be found, there is no bucket or folder to write to."""
    try:
        _told(request)
    except FileNotFoundError:
        raise UnreachableError("there is no bucket or folder of that name to write to") from None


def _told(request: Callable[[], T]) -> T:
    """The answer to a request; obstore's errors as ours, without what may hold a credential."""
    try:
        return request()
    except AlreadyExistsError:
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise DeniedError(_sentence(error)) from None
    except BaseError as error:
        raise UnreachableError(_sentence(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreachableError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """The first line of an error, with no query of an address: it may be signed."""
    text = str(error).partition("\n")[0]
    text = re.sub(r"\?\S*", "", text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
