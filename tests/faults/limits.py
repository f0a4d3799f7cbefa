"""Limits of a machine: space, files, descriptors, processes, the right to write."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from random import Random

from tests.faults.folders import remove
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig

Limit = Callable[[Rig, Random], contextlib.AbstractContextManager[str]]
"""Sets a limit for the runs inside the block; the text says which."""


@contextlib.contextmanager
def ceiling(rig: Rig, limit: int, value: int) -> Iterator[str]:
    """A limit of the runs' processes."""
    rig.ceilings[limit] = value
    try:
        yield f"at most {value}"
    finally:
        del rig.ceilings[limit]


def file_size(rig: Rig, chance: Random) -> contextlib.AbstractContextManager[str]:
    """No file may grow beyond some size, the index and the log of the run included."""
    return ceiling(rig, resource.RLIMIT_FSIZE, chance.randrange(60_000))


def descriptors(rig: Rig, chance: Random) -> contextlib.AbstractContextManager[str]:
    """Few files may be open at once; Python itself cannot import with less than ten."""
    return ceiling(rig, resource.RLIMIT_NOFILE, chance.randrange(10, 40))


@contextlib.contextmanager
def full(rig: Rig, chance: Random) -> Iterator[str]:
    """The disk is full but for a few blocks."""
    ballast, free = rig.folder / "ballast", chance.randrange(60) * 4096
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    os.truncate(ballast, max(ballast.stat().st_size - free, 0))
    try:
        yield f"{free} bytes free"
    finally:
        ballast.unlink()


@contextlib.contextmanager
def read_only(rig: Rig, chance: Random) -> Iterator[str]:
    """Some folder of the store, or all of them, may not be written to."""
    folders = [rig.store, *(path for path in sorted(rig.store.rglob("*")) if path.is_dir())]
    some = folders if chance.random() < 0.3 else [chance.choice(folders)]
    modes = {path: path.stat().st_mode for path in some}
    for path in some:
        path.chmod(0o555)
    try:
        yield f"{len(some)} folders such as {some[-1].relative_to(rig.store.parent)} are read-only"
    finally:
        for path, mode in modes.items():
            if path.exists():
                path.chmod(mode)


LIMITS: Mapping[str, Limit] = {"file size": file_size, "descriptors": descriptors, "full": full, "read-only": read_only}


def trial(rig: Rig, chance: Random, name: str) -> tuple[str, Judgement]:
    """Run under a limit, on an empty store or a filled one, and then without it: nothing may be lost."""
    start = chance.choice(("cold", "warm", "warm, a stage forced"))
    if start == "cold":
        remove(rig.store)
        rig.store.mkdir()
    else:
        rig.reset()
    forced = chance.choice(rig.subject.stages) if start == "warm, a stage forced" else ""
    with LIMITS[name](rig, chance) as text:
        ended = rig.run(FIRST, *(("--force", forced) if forced else ()))
    judgement = rig.judge(FIRST, ended, (), forced)
    after = rig.judge(FIRST, rig.run(FIRST), ())
    if after.outcome in ("refused", "wrong"):
        why = f"{judgement.outcome} ({judgement.why}), then without the limit: {after.why}"
        judgement = Judgement("wrong", why)
    return f"{name} ({text}), {start}", judgement
