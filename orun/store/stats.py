"""Size of a store, for `orun store stats`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orun.fs.os_errors import convert_os_errors
from orun.store.layout import FOLDERS
from orun.store.store import Store

_BLOCK = 512  # bytes; the unit of st_blocks, whatever the file system's is


@dataclass(frozen=True)
class Usage:
    """Files of a folder, and the bytes of disk that they take beyond the folders before it."""

    files: int
    size: int


def measure_usage(store: Store) -> Mapping[str, Usage]:
    """Return the usage of each folder of a store; a file with several names counts in the first folder.

    Raises:
        StoreError: if the store cannot be read.
    """
    seen: set[tuple[int, int]] = set()
    with convert_os_errors("measure the store", store.root):
        return {name: _measure_folder(store.root / name, seen) for name in FOLDERS}


def _measure_folder(folder: Path, seen: set[tuple[int, int]]) -> Usage:
    files = size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(f"{root}/{name}")
            except FileNotFoundError:  # a run beside this has just removed it
                continue
            files += 1
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                size += status.st_blocks * _BLOCK
    return Usage(files, size)
