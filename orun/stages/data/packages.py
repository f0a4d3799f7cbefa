"""Packages that only some datasets and parameters need: no tools of a kind, so that a stage says which it has used."""

from __future__ import annotations

from importlib.util import find_spec

from orun.errors import UsageError

NEEDED: set[str] = set()  # the modules of those that the process has asked for


def need(module: str, what: str, install: str = "'orun[data]'") -> None:
    """See that a package is there; its version is noted with the result of the stage.

    Args:
        module: its module.
        what: what needs it, for the message.
        install: what installs it.

    Raises:
        UsageError: when it is not there.
    """
    if find_spec(module) is None:
        raise UsageError(f"{what} needs {module}, which is not installed", hint=f"pip install {install}")
    NEEDED.add(module)
