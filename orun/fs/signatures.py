"""Signatures of files: by which of them a change of content cannot go unnoticed."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from pathlib import Path

from orun.core.serialization import Record
from orun.fs.digests import digest_descriptor

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

Signature = tuple[int, int, int, int, int]  # device, inode, size, mtime and ctime in nanoseconds

# The coarsest clock of a file system (FAT), in nanoseconds. A file that changed less than that ago may change again
# without a trace, as git's racy rule has it.
CLOCK = 2_000_000_000
# Where a file has another number at each mount, which another one of its size and times may have had before; under FUSE
# also once the kernel has forgotten it for want of memory.
RENUMBERING = frozenset(
    {"exfat", "fuse", "fuseblk", "msdos", "vfat"}
    | {f"fuse.{name}" for name in ("blobfuse2", "gcsfuse", "geesefs", "goofys", "rclone", "s3fs", "sshfs")}
)
_MICROSECOND = 1_000
# What file systems cut times to, in nanoseconds: NTFS and SMB, exFAT, ext3 and HFS+, FAT.
_UNITS = (1, 100, _MICROSECOND, 1_000_000, 10_000_000, 1_000_000_000, CLOCK)
LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})


class Reading(Record, frozen=True):
    """What was read of a file.

    Attributes:
        digest: of its content.
        status: its state before it was read.
        steady: whether it was the same state afterwards.
    """

    digest: str
    status: os.stat_result
    steady: bool


def signature_of(status: os.stat_result) -> Signature:
    """What changes when the content of the file does."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read_steadily(path: str | Path, *, sync: bool = False) -> Reading:
    """Read a whole file and see whether somebody wrote to it meanwhile; with `sync`, wait until the disk has it."""
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        digest = digest_descriptor(file.fileno())
        if sync:
            os.fsync(file.fileno())
        after = os.fstat(file.fileno())
    return Reading(digest, before, signature_of(before) == signature_of(after))


def is_held_for_writing(path: str | Path) -> bool:
    """Whether a process has the file open for writing, where the system tells (of one's own files, on Linux).

    What it has mapped it may change without a trace: the times of a file change with the first write to a page alone.
    Network file systems refuse the same lease for reasons of their own: there it is not known.
    """
    if sys.platform != "linux":
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # who breaks the lease sends that, which does nothing
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN and _file_system(descriptor) in LOCAL
    finally:
        os.close(descriptor)
    return False


def keeps_inodes(path: str | Path) -> bool:
    """Whether a file has the same inode number whenever its file system is mounted, as far as that is known."""
    return _file_system_at(path) not in RENUMBERING


def is_local(path: str | Path) -> bool:
    """Whether no other host, nor a host of this virtual machine, has the same files, as far as that is known."""
    return (_file_system_at(path) or "ext4") in LOCAL


def _file_system_at(path: str | Path) -> str:
    """`_file_system` of what is at a path; empty, too, where it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return _file_system(descriptor)
    finally:
        os.close(descriptor)


def _file_system(descriptor: int) -> str:
    """The type of the file system that an open file is on, as Linux names it; an empty text where nobody tells."""
    with contextlib.suppress(OSError, StopIteration):
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        mount = next(line.split()[1] for line in told if line.startswith("mnt_id:"))
        lines = map(str.split, Path("/proc/self/mountinfo").read_text().splitlines())
        fields = next(line for line in lines if line[0] == mount)
        return fields[fields.index("-") + 1]
    return ""


def set_stamp(path: str, stamp: int | None = None) -> int:
    """Set the mtime of a file of our own to a precise time, now unless given, and return it in nanoseconds as kept.

    A later write leaves the coarse time of the kernel's clock, another one even within the same tick.
    """
    if stamp is None:
        stamp = time.time_ns()
        stamp += 100 * (stamp % _MICROSECOND < 100)  # noqa: PLR2004 - of no whole microsecond, as NTFS keeps it, too
    os.utime(path, ns=(stamp, stamp))
    kept = os.lstat(path).st_mtime_ns
    return kept if any(kept == stamp - stamp % unit for unit in _UNITS) else stamp  # it was written to this moment


def is_settled(status: os.stat_result) -> bool:
    """Whether any later write to a file of our own must change its mtime.

    Not so where a file system has cut the stamp to what a write may follow within, until that has passed.
    """
    return status.st_mtime_ns % _MICROSECOND != 0 or status.st_mtime_ns < time.time_ns() - CLOCK
