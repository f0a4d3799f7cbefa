"""What every place that takes releases offers, and how its refusals are told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from orun.errors import UsageError


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
        return str(json.loads(manifest)["digest"])
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


@contextmanager
def refused(place: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors of the block into a `UsageError` that names the place."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{place} did not take the release", why=str(error).partition("\n")[0]) from error
