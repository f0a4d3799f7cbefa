"""The user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

from orun.errors import UsageError


def locate_cache() -> Path:
    """Return `$XDG_CACHE_HOME/orun`, else `~/.cache/orun`.

    Raises:
        UsageError: when the user has neither, as in a container whose user is only a number.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if Path(chosen).is_absolute():
        return Path(chosen, "orun")
    try:
        return Path.home() / ".cache" / "orun"
    except RuntimeError as error:
        raise UsageError(
            "there is no folder for caches", why="this user has no home", hint="name one: export XDG_CACHE_HOME=FOLDER"
        ) from error
