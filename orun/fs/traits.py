"""Traits of file systems: the one place that knows how they differ.

orun is made for local file systems and for network ones with locks and stable inode numbers. Elsewhere it works with
copies and reads files more often, and a store gets a warning.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from orun.core.serialization import Record
from orun.fs.copying import link, reflink
from orun.fs.durable import READ_ONLY, write_file

LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
# File systems that number inodes anew at each mount, or when the kernel has forgotten a file: another file of the same
# size and times may then have the number.
RENUMBERING = frozenset(
    {"exfat", "fuse", "fuseblk", "msdos", "vfat"}
    | {f"fuse.{name}" for name in ("blobfuse2", "gcsfuse", "geesefs", "goofys", "rclone", "s3fs", "sshfs")}
)
SEPARATE_LOCKS = frozenset({"9p", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf", "virtiofs"})  # of a host and its machines


class FilesystemTraits(Record, frozen=True):
    """Abilities of a file system.

    Attributes:
        reflink: copies share blocks until one of them is written to.
        hardlink: a file can have two names that are seen to be one file.
    """

    reflink: bool
    hardlink: bool


def probe(folder: str) -> FilesystemTraits:
    """Return the traits of the file system of a folder, in which two files are made and removed."""
    source, target = (f"{folder}/probe-{os.urandom(6).hex()}" for _ in range(2))
    write_file(source, b"orun", READ_ONLY, sync=False)
    try:
        shares = reflink(source, target, READ_ONLY)
        if shares:
            os.unlink(target)
        links = link(source, target)
        if links:  # sshfs shows two files of one name each: a write to one would not be noticed at the other
            status = os.lstat(target)
            links = status.st_nlink > 1 and os.path.samestat(os.lstat(source), status)
            os.unlink(target)
    finally:
        os.unlink(source)
    return FilesystemTraits(shares, links)


def has_stable_inodes(path: str | Path) -> bool:
    """Return whether a file keeps its inode number, as far as that is known."""
    return read_filesystem_type(path) not in RENUMBERING


def is_local(path: str | Path) -> bool:
    """Return whether no other host writes to the same files, as far as that is known."""
    return (read_filesystem_type(path) or "ext4") in LOCAL


def store_warning(root: Path) -> str:
    """Return a warning if a store is on a file system that lacks what it relies on; empty if not."""
    kind = read_filesystem_type(root)
    if kind in RENUMBERING:
        lack = "which does not keep the numbers and may not keep the modes of files"
    elif kind in SEPARATE_LOCKS:
        lack = "whose locks do not reach other machines: let only one machine use it at a time"
    else:
        return ""
    return f"the store {root} is on {kind}, {lack}; a local disk is safer and faster: --store DIR"


def read_filesystem_type(path: str | Path) -> str:
    """Return the type of a path's file system, as Linux names it; empty if it is not known."""
    with contextlib.suppress(OSError, StopIteration):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        finally:
            os.close(descriptor)
        mount = next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
        mounts = map(str.split, Path("/proc/self/mountinfo").read_text().splitlines())
        fields = next(fields for fields in mounts if fields[0] == mount)
        return fields[fields.index("-") + 1]
    return ""
