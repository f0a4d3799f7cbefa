"""BLAKE3 digests of bytes and files, the only hash of the store's layout 1 (see `store/layout.py`)."""

from __future__ import annotations

import functools
import os

from blake3 import blake3

from orun.fs.durable import write_all

ALGORITHM = "blake3"
LENGTH = 64  # hexadecimal digits

# Files are read, not mapped. That takes a third more time, but a mapped file that is truncated kills the process.
_CHUNK = 1 << 20
_CACHE_LINE = 64  # bytes
_FEW_CORES = 3  # up to here reading limits: threads save no time and cost a third more CPU


def digest_bytes(data: bytes) -> str:
    """Return the BLAKE3 digest of bytes, 64 hexadecimal digits."""
    return blake3(data).hexdigest()


def digest_descriptor(source: int, copy_to: int | None = None) -> str:
    """Return the digest of the rest of an open file, and copy it to another descriptor if there is one."""
    size = os.fstat(source).st_size
    chunk = os.read(source, min(_CHUNK, size + 1))
    more = len(chunk) != size  # some network file systems return less than is there
    hasher = blake3(chunk, max_threads=_count_threads() if more else 1)
    if copy_to is not None:
        write_all(copy_to, chunk)
    if not more:
        return hasher.hexdigest()
    # Not at the start of a page, where malloc puts it: AMD's Zen 3 copies to there at a fifth of its speed, see
    # https://xuanwo.io/2023/04-rust-std-fs-slower-than-python/.
    buffer = memoryview(bytearray(_CHUNK + _CACHE_LINE))[_CACHE_LINE:]
    with open(source, "rb", buffering=0, closefd=False) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
            if copy_to is not None:
                write_all(copy_to, buffer[:count])
    return hasher.hexdigest()


def is_digest(text: object) -> bool:
    """Return whether a value has the form of a digest."""
    return isinstance(text, str) and len(text) == LENGTH and not text.strip("0123456789abcdef")


@functools.cache
def _count_threads() -> int:
    """Return the number of threads that are useful on the cores of this process."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 8) if usable > _FEW_CORES else 1
