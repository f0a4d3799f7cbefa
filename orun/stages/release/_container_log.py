"""Place of a server's sample log in a container: a folder that the server's user may write."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from orun.errors import UsageError

FOLDER = "/var/log/model"  # of relative paths: the folder of the model belongs to root


def locate_log(settings: Mapping[str, Any]) -> PurePosixPath | None:
    """Return the path of the sample log in a container; None if the server has no log.

    Raises:
        UsageError: if the log lies in the root folder, which no volume can replace.
    """
    name = settings["sample_log"]
    if not name:
        return None
    path = PurePosixPath(posixpath.normpath(posixpath.join(FOLDER, name)))
    if path.parent == path.parent.parent:
        raise UsageError(
            f"sample_log: {name} lies in the root folder, where the server's user cannot write",
            hint="name a file in another folder: requests.jsonl",
        )
    return path
