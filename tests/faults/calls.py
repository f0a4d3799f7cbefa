"""Every call to the system can fail: a library, preloaded into each process of a command, lets one do so."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.rig import Rig

SOURCE = Path(__file__).with_name("failing_calls.c")
VARIABLE = "ORUN_FAILING_CALLS"
PLAN = struct.Struct("=7q")  # kind, who, number, error, how, failed, first: see the source
LONGEST = 1024  # bytes of a text in it

KINDS = (
    "open", "read", "write", "sync", "close", "rename", "link", "unlink", "mkdir", "mode", "size", "clone", "stat",
    "list", "lock", "map",
)  # fmt: skip
HOW = ("once", "from then on", "once, though done")
WHO = ("all", "the run", "its processes")
COUNTS = struct.Struct(f"={len(WHO) * len(KINDS)}q")
SHORT = 0  # in the place of an errno: half of the bytes
FULL = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
ERRORS: Mapping[str, tuple[int, ...]] = {
    "open": (*FULL, errno.EMFILE, errno.EACCES, errno.EROFS, errno.ESTALE, errno.EINTR),
    "read": (errno.EIO, errno.ESTALE, errno.EINTR, SHORT),
    "write": (*FULL, errno.ESTALE, errno.EINTR, SHORT),
    "sync": (*FULL, errno.ESTALE, errno.EINTR),
    "close": FULL,
    "rename": (*FULL, errno.EROFS, errno.EACCES, errno.ESTALE),
    "link": (*FULL, errno.EROFS, errno.EPERM, errno.ESTALE, errno.EMLINK),
    "unlink": (errno.EIO, errno.EROFS, errno.EACCES, errno.ESTALE, errno.EBUSY),
    "mkdir": (*FULL, errno.EROFS, errno.EACCES, errno.ESTALE),
    "mode": (errno.EIO, errno.EROFS, errno.EPERM, errno.ESTALE),
    "size": (*FULL, errno.ESTALE),
    "clone": (*FULL, errno.EOPNOTSUPP, errno.EXDEV),
    "stat": (errno.EIO, errno.EACCES, errno.ESTALE),
    "list": (errno.EIO, errno.EACCES, errno.ESTALE),
    "lock": (errno.EIO, errno.ESTALE, errno.EINTR),  # ENOLCK is waited for: SQLite takes it for another process
    "map": (errno.ENOMEM, errno.ENODEV, errno.EACCES),
}
LOOKS = ("open", "read", "stat", "list")  # what cannot be read may be taken for damaged, and is made again then
AGAIN = (SHORT, errno.EINTR)  # who is told that tries again, and would do so for ever

Counts = Mapping[tuple[str, str], int]
"""How many calls there were, by kind and by whose."""


@dataclass(frozen=True)
class Fault:
    """Which call fails: its kind, whose it is, its number among those, with which errno, and whether others after it.

    Attributes:
        kind: one of `KINDS`.
        who: one of `WHO`.
        number: from 1.
        error: an errno, or `SHORT`.
        how: one of `HOW`.
    """

    kind: str
    who: str
    number: int
    error: int
    how: str

    def __str__(self) -> str:
        error = errno.errorcode.get(self.error, "half of the bytes")
        return f"{self.kind} {self.number} of {self.who}, {error} {self.how}"

    @classmethod
    def any(cls, chance: Random, counts: Counts) -> Fault:
        """One of the calls that were counted."""
        kind = chance.choice(sorted({kind for kind, _ in counts}))
        who = chance.choice([who for who in WHO if (kind, who) in counts])
        error = chance.choice(ERRORS[kind])
        how = HOW[0] if error in AGAIN else chance.choice(HOW)
        return cls(kind, who, chance.randint(1, counts[kind, who]), error, how)


def compile_library(folder: Path) -> Path:
    """Compile the library into a folder; return its path."""
    compiler = shutil.which("cc")
    assert compiler, "there is no C compiler"
    library = folder / "failing_calls.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return library


@dataclass(frozen=True)
class Failing:
    """The library that lets calls fail, and the file that tells it which.

    Attributes:
        library: its path.
        plan: the file.
        below: the folder whose files are concerned.
    """

    library: Path
    plan: Path
    below: Path

    @classmethod
    def make(cls, library: Path, folder: Path, below: Path) -> Failing:
        """Return the library with a plan of its own in a folder."""
        return cls(library, folder / "failing_calls.plan", below)

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to be told of it."""
        return {"LD_PRELOAD": str(self.library), VARIABLE: str(self.plan)}

    def set(self, fault: Fault | None) -> None:
        """Let a call fail from now on, counted anew, also in processes that run; None to count them all."""
        numbers = (-1, 0, 0, 0, 0)
        if fault:
            numbers = (KINDS.index(fault.kind), WHO.index(fault.who), fault.number, fault.error, HOW.index(fault.how))
        below = f"{self.below}/".encode().ljust(LONGEST, b"\0")
        content = PLAN.pack(*numbers, 0, 0) + bytes(COUNTS.size) + below + bytes(LONGEST)
        with self.plan.open("r+b" if self.plan.exists() else "wb", buffering=0) as file:  # it stays the one mapped
            file.write(content)

    @contextmanager
    def of(self, rig: Rig, fault: Fault | None) -> Iterator[None]:
        """Let a call of the rig's runs fail; None to count them all."""
        self.set(fault)
        rig.variables |= self.variables
        try:
            yield
        finally:
            for name in self.variables:
                del rig.variables[name]

    def counts(self) -> Counts:
        """How many calls there were."""
        numbers = COUNTS.unpack_from(self.plan.read_bytes(), PLAN.size)
        names = [(kind, who) for who in WHO for kind in KINDS]
        return {name: number for name, number in zip(names, numbers, strict=True) if number}

    def failed(self) -> str:
        """The first call that has failed; empty when none has."""
        return self.plan.read_bytes()[-LONGEST:].rstrip(b"\0").decode()
