"""Environment variables: those that no stage is told, and others of this process that are set for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SHARED_KEY, SIGNING_KEY = "ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY"  # what results in a remote store are signed with
SECRETS = frozenset({SHARED_KEY, SIGNING_KEY})


def given() -> list[str]:
    """Which secrets are set: with one of them a run may push what an earlier one could not. Their values go nowhere."""
    return sorted(name for name in SECRETS if os.environ.get(name))


@contextmanager
def variable(name: str, value: str | None) -> Iterator[None]:
    """Within it the variable has that value, here and in processes that start meanwhile; then what it had before.

    Args:
        name: of the variable.
        value: what it is to be; None for not set.
    """
    before = os.environ.get(name)
    _set(name, value)
    try:
        yield
    finally:
        _set(name, before)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
