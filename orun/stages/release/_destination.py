"""Protocol of a release's destination, and the errors of destinations."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from orun.core.serialization import foreign_json
from orun.errors import MissingPackages, UsageError

T = TypeVar("T")

QUICK, LONG = 20.0, 120.0  # seconds without an answer, and to a file that was sent; as of buckets
PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds before each further try
LATEST = 30.0  # seconds after the first try when the last one begins


class Publisher(Protocol):
    """Destination of a release. The defaults are for destinations that take a release all at once."""

    def manifest(self) -> str:
        """Return the digest of the manifest there; empty without one."""

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """Copy these files of a bundle in this order; replace what was there."""

    def reference(self) -> str:
        """Return a fixed name of the published release: a commit or a digest; empty without one."""

    def unfinished(self) -> str:
        """Return the digest of a release whose publication began and did not end; empty without one."""
        return ""

    def lacks(self, bundle: Path, names: Sequence[str]) -> list[str]:
        """Return which of these files of a bundle are missing or differ in size."""
        del bundle, names
        return []


def digest_of(manifest: bytes | None) -> str:
    """Return the digest in a manifest; empty without a manifest, a text of its own for an invalid one."""
    if manifest is None:
        return ""
    try:
        return str(foreign_json(manifest)["digest"])
    except (ValueError, KeyError, TypeError):
        return "none: it is no manifest of a bundle"


@contextmanager
def needing(package: str) -> Iterator[None]:
    """Turn an ImportError of the block into an error that says which package to install."""
    try:
        yield
    except ImportError as error:
        raise MissingPackages("what publishing there needs is not installed", [package], why=str(error)) from error


def patiently(
    place: str, request: Callable[[], T], errors: tuple[type[Exception], ...], answers: tuple[type[Exception], ...] = ()
) -> T:
    """Return the answer to a request; retry it after some errors, with growing pauses and for a bounded time.

    Args:
        place: the host, for messages.
        request: sends the request.
        errors: that may be temporary.
        answers: subclasses of these with which the host answered; they are raised at once.

    Raises:
        ConnectionError: when the last try failed as well.
    """
    began, pauses = time.monotonic(), iter(PAUSES)
    for tries in itertools.count(1):
        try:
            return request()
        except answers:
            raise
        except errors as error:
            pause = next(pauses, math.inf)
            if time.monotonic() - began + pause > LATEST:
                times = "once" if tries == 1 else f"{tries} times"
                raise ConnectionError(f"{place}: {_origin(error)} (tried {times})") from error
            time.sleep(pause)
    raise AssertionError("not reached")


def _origin(error: BaseException) -> str:
    """Return the message of the system behind an error of a library, or the error's own."""
    message = getattr(error, "strerror", None)
    while not message and (below := error.__cause__ or _nested(error) or error.__context__) is not None:
        error, message = below, getattr(below, "strerror", None)
    return (message or str(error) or type(error).__name__).partition("\n")[0]


def _nested(error: BaseException) -> BaseException | None:
    """Return the error inside an error, as requests and urllib3 nest theirs."""
    candidates = (getattr(error, "reason", None), *error.args)
    return next((error_argument for error_argument in candidates if isinstance(error_argument, BaseException)), None)


@contextmanager
def refused(place: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors of the block into a `UsageError` that names the place."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{place} did not take the release", why=str(error).partition("\n")[0]) from error
