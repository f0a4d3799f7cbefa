"""BLAKE3 of bytes and files: the only hash of layout 1 of the store (see `layout.py`)."""

from __future__ import annotations

import functools
import os

from blake3 import blake3

from orun.fs.durable import write_all

ALGORITHM = "blake3"
LENGTH = 64  # hexadecimal digits

# Files are read, not mapped: that takes a third more time, but a mapped file that someone truncates, or whose disk
# fails, kills the process (SIGBUS).
_CHUNK = 1 << 20
_LINE = 64  # bytes: of a processor's cache
_FEW = 3  # cores with which threads save no time, and take a third more of the CPU's: reading is what limits


def digest_bytes(data: bytes) -> str:
    """The BLAKE3 digest of `data`, 64 hexadecimal digits."""
    return blake3(data).hexdigest()


def digest_descriptor(source: int, copy_to: int | None = None) -> str:
    """The digest of what is left to read from a file descriptor, written to another one on the way when asked."""
    size = os.fstat(source).st_size
    chunk: bytes | memoryview = os.read(source, min(_CHUNK, size + 1))
    more = len(chunk) != size  # less than there is may come at a time, as it does from some network file systems
    hasher = blake3(chunk, max_threads=_threads() if more else 1)  # threads pay only then
    if copy_to is not None:
        write_all(copy_to, chunk)
    buffer = _buffer() if more else memoryview(b"")
    while more and (count := os.readv(source, [buffer])):
        chunk = buffer[:count]
        hasher.update(chunk)
        if copy_to is not None:
            write_all(copy_to, chunk)
    return hasher.hexdigest()


def _buffer() -> memoryview:
    """Memory to read into that does not begin within 32 bytes of a page, as what malloc gives of this size does.

    AMD's Zen 3 copies to there at a fifth of its speed, and 1 GiB took twice the time to read and digest.
    See https://xuanwo.io/2023/04-rust-std-fs-slower-than-python/.
    """
    import mmap  # not for small files

    try:
        pages = mmap.mmap(-1, _CHUNK + _LINE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:  # as everything else that asks for memory has it
        raise MemoryError from error
    return memoryview(pages)[_LINE:]


def is_digest(text: object) -> bool:
    """Whether `text` has the form of a digest."""
    return isinstance(text, str) and len(text) == LENGTH and not text.strip("0123456789abcdef")


@functools.cache
def _threads() -> int:
    """How many are of use with the cores that this process has."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 8) if usable > _FEW else 1
