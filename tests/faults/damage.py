"""Damage to files and folders that nobody should touch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from tests.faults.folders import remove

Damage = Callable[[Path, Random], None]


def overwrite(path: Path, data: bytes) -> None:
    """Write to the same inode, and so through every hard link to it."""
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


def flip(path: Path, chance: Random) -> None:
    """Flip one bit; an empty file gets one byte."""
    data = bytearray(path.read_bytes()) or bytearray(1)
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    overwrite(path, bytes(data))


def truncate(path: Path, chance: Random) -> None:
    """Cut the file off somewhere."""
    data = path.read_bytes()
    overwrite(path, data[: chance.randrange(len(data))] if data else b"")


def append(path: Path, chance: Random) -> None:
    """Add some bytes."""
    overwrite(path, path.read_bytes() + chance.randbytes(chance.randrange(1, 100)))


def replace(path: Path, chance: Random) -> None:
    """Put another file of the same size and times in its place."""
    status = path.stat()
    other = path.with_name(f"{path.name}.other")
    other.write_bytes(chance.randbytes(status.st_size))
    other.chmod(status.st_mode)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def keeping_times(damage: Damage) -> Damage:
    """Damage after which the file has its times again."""

    def quiet(path: Path, chance: Random) -> None:
        status = path.stat()
        damage(path, chance)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return quiet


def delete(path: Path, _: Random) -> None:
    """Remove it, a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink()


def rename(path: Path, _: Random) -> None:
    """Give it another name in the same folder."""
    path.rename(path.with_name(f"{path.name}.moved"))


def make_folder(path: Path, chance: Random) -> None:
    """Put a folder with a file in its place."""
    delete(path, chance)
    path.mkdir()
    (path / "stranger").write_text("not ours")


def make_file(path: Path, chance: Random) -> None:
    """Put a file in its place."""
    delete(path, chance)
    path.write_text("not ours")


def dangle(path: Path, chance: Random) -> None:
    """Put a link to nothing in its place."""
    delete(path, chance)
    path.symlink_to("nowhere")


def link(path: Path, chance: Random) -> None:
    """Put a link to a damaged copy of it in its place."""
    moved = path.with_name(f"{path.name}.moved")
    path.rename(moved)
    if moved.is_dir():
        add(moved, chance)
    else:
        flip(moved, chance)
    path.symlink_to(moved.name)


def add(path: Path, _: Random) -> None:
    """Put a file into a folder that does not belong there."""
    (path / "stranger").write_text("not ours")


def chmod(mode: int) -> Damage:
    """Change who may do what with it."""
    return lambda path, _: path.chmod(mode)


FILE: Mapping[str, Damage] = {
    "flip": flip,
    "flip, times kept": keeping_times(flip),
    "truncate": truncate,
    "append": append,
    "replace": replace,
    "delete": delete,
    "rename": rename,
    "chmod 000": chmod(0),
    "chmod 644": chmod(0o644),
    "folder instead": make_folder,
    "link to nothing": dangle,
    "link to another": link,
}
FOLDER: Mapping[str, Damage] = {
    "delete": delete,
    "rename": rename,
    "add a file": add,
    "chmod 000": chmod(0),
    "chmod 555": chmod(0o555),
    "file instead": make_file,
    "link to nothing": dangle,
    "link to another": link,
}
# The content is as it was: mending it needs no words.
HARMLESS = ("chmod 000", "chmod 644", "chmod 555")
