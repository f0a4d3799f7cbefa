"""Protocol of a release's destination, and the errors of destinations."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from orun.core.serialization import parse_foreign_json
from orun.errors import MissingPackages, UsageError

T = TypeVar("T")

QUICK, LONG = 20.0, 120.0  # timeouts in seconds, of a request and of an upload, as for buckets
PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds before each retry
LATEST = 30.0  # seconds after the first try, for the last retry to begin


class Publisher(Protocol):
    """Destination of a release. The defaults are for destinations that take a release all at once."""

    def read_manifest_digest(self) -> str:
        """Return the digest of the manifest at the destination; empty without a manifest."""

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """Copy these files of a bundle in this order; replace what was there."""

    def read_reference(self) -> str:
        """Return a fixed name of the published release, a commit or a digest; empty if it has none."""

    def read_unfinished_digest(self) -> str:
        """Return the digest of a release whose publication has begun and not ended; empty if there is none."""
        return ""

    def list_other_files(self) -> list[str]:
        """Return the files that belong to no release and that `publish` would remove."""
        return []

    def list_missing_files(self, bundle: Path, names: Sequence[str]) -> list[str]:
        """Return the files of a bundle that the destination lacks or has in another size."""
        del bundle, names
        return []


def parse_digest(manifest: bytes | None) -> str:
    """Return the digest in a manifest: empty without a manifest, a text that says so for an invalid manifest."""
    if manifest is None:
        return ""
    try:
        return str(parse_foreign_json(manifest)["digest"])
    except (ValueError, KeyError, TypeError):
        return "unknown: it is not the manifest of a bundle"


@contextmanager
def require_package(package: str) -> Iterator[None]:
    """Turn an ImportError of the block into an error that says which package to install."""
    try:
        yield
    except ImportError as error:
        raise MissingPackages("publishing there needs a package", [package], why=str(error)) from error


def retry(
    place: str, request: Callable[[], T], errors: tuple[type[Exception], ...], answers: tuple[type[Exception], ...] = ()
) -> T:
    """Return the answer to a request; retry it after temporary errors, with growing pauses and for a bounded time.

    Args:
        place: the host, for messages.
        request: sends the request.
        errors: errors that may be temporary.
        answers: subclasses of `errors` that are the host's answer; they are raised at once.

    Raises:
        ConnectionError: if the last try failed as well.
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
                raise ConnectionError(f"{place}: {_find_origin(error)} (tried {times})") from error
            time.sleep(pause)
    raise AssertionError("not reached")


def _find_origin(error: BaseException) -> str:
    """Return the operating system's message behind a library's error, or the error's own message."""
    message = getattr(error, "strerror", None)
    while not message and (below := error.__cause__ or _find_nested(error) or error.__context__) is not None:
        error, message = below, getattr(below, "strerror", None)
    return (message or str(error) or type(error).__name__).partition("\n")[0]


def _find_nested(error: BaseException) -> BaseException | None:
    """Return the error inside an error, as requests and urllib3 nest theirs."""
    candidates = (getattr(error, "reason", None), *error.args)
    return next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)


@contextmanager
def report_refusal(place: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors of the block into a `UsageError` that names the destination."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{place} did not take the release", why=str(error).partition("\n")[0]) from error
