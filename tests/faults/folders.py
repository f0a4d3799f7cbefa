"""Folders as a whole: what is in them, copies of them, and their end."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from blake3 import blake3


def contents(folder: Path) -> dict[str, str]:
    """Everything below a folder that is not a folder: relative path -> fingerprint."""
    return {
        path.relative_to(folder).as_posix(): fingerprint(path)
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def fingerprint(path: Path) -> str:
    """The digest of a file and whether it is executable; or what it is instead of a file that can be read."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return f"no file but {stat.filemode(status.st_mode)}"
        return blake3(path.read_bytes()).hexdigest() + (" executable" if status.st_mode & stat.S_IXUSR else "")
    except OSError as error:
        return str(error.strerror)


def copy(folder: Path, target: Path) -> None:
    """Copy a folder with its modes, times, and hard links."""
    subprocess.run(["cp", "-a", folder, target], check=True)


def remove(path: Path) -> None:
    """Remove a folder whatever its modes are; nothing happens when it is not there."""
    if not path.exists():
        return
    path.chmod(stat.S_IRWXU)
    for child in path.iterdir():
        if child.is_dir() and not child.is_symlink():
            remove(child)
        else:
            child.unlink()
    path.rmdir()
