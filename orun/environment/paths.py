"""The folders of `PYTHONPATH` that may decide which modules the user's code imports."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import orun
from orun.environment.once import once
from orun.observe import portable_name, project_of

VARIABLE = "PYTHONPATH"
CHECKOUT = str(Path(orun.__file__).parents[1])  # on the path where orun itself is developed
INJECTED = frozenset({"sitecustomize", "usercustomize", "__pycache__"})  # by debuggers and tracers, which watch


def module_folders(root: Path, around: Collection[Path]) -> str:
    """Those folders in their order, by names that hold wherever the project is; empty when there are none.

    Args:
        root: the pipeline's folder.
        around: the folders that are before them anyway, so that naming them again changes nothing.
    """
    said = os.environ.get(VARIABLE, "")
    folders = [Path(os.path.abspath(entry)) for entry in said.split(os.pathsep) if entry]  # noqa: PTH100 - keeps links
    counted = [one for one in folders if str(one) != CHECKOUT and one not in around and not _only_watches(str(one))]
    project = project_of(root) if counted else root
    return os.pathsep.join(portable_name(one, root, project) for one in counted)


@once
def _only_watches(folder: str) -> bool:
    """Whether there is nothing in it but what Python runs at its start."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208 - names alone are wanted
    except OSError:
        return False
    return bool(names) and names <= INJECTED
