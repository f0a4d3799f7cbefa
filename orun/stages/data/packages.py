"""Packages that only some datasets need."""

from __future__ import annotations

from importlib.util import find_spec

from orun.errors import UsageError


def need(module: str, what: str, install: str = "'orun[data]'") -> None:
    """See that a package is there.

    Args:
        module: its module.
        what: what needs it, for the message.
        install: what installs it.

    Raises:
        UsageError: when it is not there.
    """
    if find_spec(module) is None:
        raise UsageError(f"{what} needs {module}, which is not installed", hint=f"pip install {install}")
