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
from orun.errors import UsageError

T = TypeVar("T")

QUICK, LONG = 20.0, 120.0  # seconds without an answer, and to a file that was sent; as of buckets
PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds before each further try
LATEST = 30.0  # seconds after the first try when the last one begins


class Publisher(Protocol):
    """A place that takes a release; one that takes it all at once has nothing unfinished, and lacks nothing."""

    def manifest(self) -> str:
        """The digest of the manifest that is there; empty when there is none."""

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """Copy these files of a bundle in this order, in the place of what was there."""

    def reference(self) -> str:
        """What was published, by a name that does not move: a commit, a digest; empty when there is none."""

    def unfinished(self) -> str:
        """The digest of a release that somebody began to publish there and has not ended; empty when there is none."""
        return ""

    def lacks(self, bundle: Path, names: Sequence[str]) -> list[str]:
        """Which of these files of a bundle are not there as they should be."""
        del bundle, names
        return []


def digest_of(manifest: bytes | None) -> str:
    """The digest that a manifest has; a text of its own for what is no manifest, and empty when there is none."""
    if manifest is None:
        return ""
    try:
        return str(foreign_json(manifest)["digest"])
    except (ValueError, KeyError, TypeError):
        return "none: it is no manifest of a bundle"


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Say what to install for the block, when it cannot import something."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            "what publishing there needs is not installed", why=str(error), hint=f'pip install "orun[{extra}]"'
        ) from error


def patiently(
    place: str, request: Callable[[], T], errors: tuple[type[Exception], ...], answers: tuple[type[Exception], ...] = ()
) -> T:
    """The answer to a request, which is tried again, with growing pauses and for a bounded time, after some errors.

    Args:
        place: the host that is asked, as a message names it.
        request: what asks it.
        errors: that may pass.
        answers: errors, though some of those, by which the place has answered; they are raised as they are.

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
    """What an error of a library rests on: the words of the system, where it tells them."""
    told = getattr(error, "strerror", None)
    while not told and (below := error.__cause__ or _held(error) or error.__context__) is not None:
        error, told = below, getattr(below, "strerror", None)
    return (told or str(error) or type(error).__name__).partition("\n")[0]


def _held(error: BaseException) -> BaseException | None:
    """The error that an error was made of, as requests and urllib3 make theirs."""
    found = (getattr(error, "reason", None), *error.args)
    return next((one for one in found if isinstance(one, BaseException)), None)


@contextmanager
def refused(place: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors of the block into a `UsageError` that names the place."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{place} did not take the release", why=str(error).partition("\n")[0]) from error
