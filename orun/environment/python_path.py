"""Folders of `PYTHONPATH` that decide which modules the user's code imports."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from orun.environment.call_cache import cache_calls
from orun.fs.observed_state import to_portable_name

VARIABLE = "PYTHONPATH"
PACKAGE = Path(__file__).parents[1]  # orun itself
CHECKOUT = str(PACKAGE.parent)  # on the path when orun itself is developed
STARTUP = ("sitecustomize", "usercustomize")  # modules that Python imports when it starts
INJECTED = frozenset({*STARTUP, "__pycache__"})  # content of the folders that debuggers and tracers add


def list_folders(text: str) -> list[str]:
    """Return the folders in a value of `PYTHONPATH`, without orun's own."""
    folders = map(os.path.abspath, filter(None, text.split(os.pathsep)))
    return [folder for folder in folders if folder != CHECKOUT]


def format_module_folders(root: Path, project: Path, excluded: Collection[Path]) -> str:
    """Return the folders of `PYTHONPATH` in order, by names that do not depend on where the project lies.

    Args:
        root: the pipeline's folder.
        project: the top folder of the project.
        excluded: folders that Python searches earlier anyway.
    """
    folders = [
        Path(folder) for folder in list_folders(os.environ.get(VARIABLE, "")) if not _holds_only_injected(folder)
    ]
    return os.pathsep.join(to_portable_name(folder, root, project) for folder in folders if folder not in excluded)


@cache_calls
def _holds_only_injected(folder: str) -> bool:
    """Return whether a folder holds only modules that Python imports when it starts."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208 - only names
    except OSError:
        return False
    return bool(names) and names <= INJECTED
