"""Fleets by their URLs: those of orun, and those that packages offer under the entry point group `orun.executors`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from orun.environment.entry_points import Group
from orun.errors import UsageError
from orun.runner.fleet import Connect, Fleet

FLEETS = Group("orun.executors", "fleet")
BUILTIN: Mapping[str, str] = {  # by scheme; imported when a URL has it
    "ray": "orun.cluster.fleet:connect",
    "tcp": "orun.agent.client:connect",
    "unix": "orun.agent.client:connect",
}
EXAMPLE = "ray://head:6379"


def format_agent_command(url: str) -> str:
    """Return the command that starts an agent, which then is in the fleet at a URL."""
    scheme, _, head = url.partition("://")
    return f"orun agent --join {head}" if scheme == "ray" else "orun agent --listen URL"


def open_fleet(url: str) -> Fleet:
    """Return the fleet at a URL.

    Raises:
        UsageError: if nothing is known of its scheme, or the fleet cannot be used.
        StoreError: if the fleet cannot be reached.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(f"'{url}' is no address of a fleet", hint=f"--on {EXAMPLE}")
    if scheme in BUILTIN:
        module, _, name = BUILTIN[scheme].partition(":")
        connect: Connect = getattr(importlib.import_module(module), name)
        return connect(url)
    points = FLEETS.find()
    if scheme not in points:
        known = ", ".join(sorted({*BUILTIN, *points}))
        raise UsageError(f"no fleet has addresses like '{url}'", why=f"known: {known}", hint=f"--on {EXAMPLE}")
    connect = FLEETS.load_function(points[scheme])
    return connect(url)
