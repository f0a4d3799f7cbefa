"""Copies of a file: as a reflink, a hard link, or byte by byte."""

from __future__ import annotations

import contextlib
import os
import sys

from orun.fs.digests import digest_descriptor
from orun.fs.durable import create_file, set_mode
from orun.fs.os_errors import ensure_space

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

_FICLONE = 0x40049409  # <linux/fs.h>


def copy_file(source: str, target: str, mode: int, *, sync: bool) -> str:
    """Copy a file and return the digest of the copy. With `sync` it is on the disk afterwards."""
    with open(source, "rb", buffering=0) as file:
        ensure_space(os.path.dirname(target), os.fstat(file.fileno()).st_size)
        with create_file(target, mode, sync=sync) as descriptor:
            return digest_descriptor(file.fileno(), descriptor)


def reflink(source: str, target: str, mode: int) -> bool:
    """Let `target` share the blocks of `source` until one of them is written to; return False if that is impossible.

    Raises:
        OSError: if the target exists or cannot be made.
    """
    if sys.platform != "linux":
        return False
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        set_mode(descriptor, mode)  # whatever the umask
        with open(source, "rb", buffering=0) as file:
            fcntl.ioctl(descriptor, _FICLONE, file.fileno())
    except OSError:
        os.unlink(target)
        return False
    finally:
        os.close(descriptor)
    return True


def link(source: str, target: str) -> bool:
    """Give a file a second name; return False if that is impossible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    return True
