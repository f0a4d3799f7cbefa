"""Folder of what all orun processes of this machine share: its lock, and readings of its cores."""

from __future__ import annotations

import os
from pathlib import Path

from orun.errors import StoreError

VARIABLE = "ORUN_LOCKS"  # names the folder
DEFAULT = "/tmp"  # noqa: S108 - the one folder that all users share, whatever their TMPDIR


def choose_machine_folder() -> Path:
    """Return the folder `$ORUN_LOCKS`; without it `/tmp`, or the folder `$TMPDIR` where `/tmp` is read-only."""
    chosen = os.environ.get(VARIABLE)
    folders = [chosen] if chosen else [DEFAULT, os.environ.get("TMPDIR", "")]
    for folder in folders:
        if Path(folder).is_absolute() and os.access(folder, os.W_OK):
            return Path(folder)
    raise StoreError(
        "there is no folder for the lock that all orun processes of this machine share",
        why=f"{folders[0]} {'cannot be written' if Path(folders[0]).is_absolute() else 'is not an absolute path'}",
        hint=f"Name a folder that can be written: export {VARIABLE}=FOLDER",
    )


def locate_readings() -> Path:
    """Return the file in which measurements of this user keep readings of the cores; no dependency of any stage.

    Raises:
        StoreError: if there is no folder for it.
    """
    return choose_machine_folder() / f"orun-machine-cores-{os.getuid()}.json"
