"""Giving a file a second place: as a reflink, a hard link, or a copy."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

from orun.fs.digests import digest_descriptor
from orun.fs.durable import new_file, set_mode
from orun.fs.os_errors import ensure_space

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

_FICLONE = 0x40049409  # <linux/fs.h>

# What file systems say that have no reflinks, ZFS also of a file whose blocks it has not yet written to their places;
# and what hard links are refused with: another device, another owner (fs.protected_hardlinks), too many of them, none
# at all. ENOTSUP is another number than EOPNOTSUPP on macOS.
_NO_REFLINK = {
    errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.EAGAIN,
}  # fmt: skip
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EACCES}


def copy_file(source: str, target: str, mode: int, *, sync: bool) -> str:
    """Copy a file in one pass and return the digest of what was copied; with `sync`, the disk has it by then."""
    with open(source, "rb", buffering=0) as file:
        ensure_space(os.path.dirname(target), os.fstat(file.fileno()).st_size)
        with new_file(target, mode, sync=sync) as descriptor:
            return digest_descriptor(file.fileno(), descriptor)


def reflink(source: str, target: str, mode: int) -> bool:
    """Let `target` share the blocks of `source` until one of them is written to; False where that cannot be."""
    if sys.platform != "linux":
        return False
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        set_mode(descriptor, mode)  # whatever the umask
        with open(source, "rb", buffering=0) as file:
            fcntl.ioctl(descriptor, _FICLONE, file.fileno())
    except OSError as error:
        os.unlink(target)
        if error.errno in _NO_REFLINK:
            return False
        raise
    finally:
        os.close(descriptor)
    return True


def link(source: str, target: str) -> bool:
    """Give the file a second name; False where that cannot be, or where the two would pass for two files.

    So they do on sshfs: what is written by one name would not be noticed at the other.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    if not os.path.samestat(os.lstat(source), made := os.lstat(target)) or made.st_nlink == 1:
        os.unlink(target)
        return False
    return True
