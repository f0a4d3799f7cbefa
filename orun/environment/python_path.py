"""Folders of `PYTHONPATH` that decide which modules the user's code imports."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from orun.environment.call_cache import once
from orun.fs.observed_state import portable_name

VARIABLE = "PYTHONPATH"
PACKAGE = Path(__file__).parents[1]  # orun itself
CHECKOUT = str(PACKAGE.parent)  # on the path where orun itself is developed
STARTUP = ("sitecustomize", "usercustomize")  # what Python imports at its start
INJECTED = frozenset({*STARTUP, "__pycache__"})  # by debuggers and tracers, which watch


def on_path(text: str) -> list[str]:
    """Return the folders that a value of `PYTHONPATH` names, but for orun's own."""
    folders = map(os.path.abspath, filter(None, text.split(os.pathsep)))
    return [folder for folder in folders if folder != CHECKOUT]


def module_folders(root: Path, project: Path, excluded: Collection[Path]) -> str:
    """Those folders in their order, by names that hold wherever the project is; empty when there are none.

    Args:
        root: the pipeline's folder.
        project: the top of the project around it.
        excluded: the folders that are before them anyway, so that naming them again changes nothing.
    """
    folders = [Path(folder) for folder in on_path(os.environ.get(VARIABLE, "")) if not _only_watches(folder)]
    return os.pathsep.join(portable_name(folder, root, project) for folder in folders if folder not in excluded)


@once
def _only_watches(folder: str) -> bool:
    """Return whether there is nothing in it but what Python runs at its start."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208 - names alone are wanted
    except OSError:
        return False
    return bool(names) and names <= INJECTED
