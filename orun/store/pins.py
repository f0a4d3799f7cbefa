"""Artifacts that a collection keeps because somebody named them: `pins/<name>.json`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from orun.errors import StoreError, UsageError
from orun.fs.digests import digest_bytes
from orun.fs.durable import replace_file
from orun.fs.observed_state import seen_at
from orun.fs.os_errors import convert_os_errors
from orun.store.checksummed_json import encode_checksummed, read_record
from orun.store.layout import safe_name
from orun.store.store import Store


@dataclass(frozen=True)
class Pin:
    """A named artifact: the digest of its tree, and when it was named (seconds since the epoch)."""

    name: str
    tree: str
    at: float


def pin(store: Store, name: str, tree: str) -> Pin:
    """Name an artifact, so that it is kept until it is unpinned; a name may be given to another one.

    Raises:
        StoreError: when the artifact is not whole, or the pin cannot be written.
        UsageError: when the name cannot be shown.
    """
    if not (name and name.isprintable()):
        raise UsageError(f"a pin cannot be called {name!r}", why="its name must be one that can be read")
    if problems := store.check(tree):
        raise StoreError(
            f"cannot pin {tree} as {name!r}",
            why="\n".join(problems),
            hint="Run the pipeline again, which mends it, and pin what it made: orun FILE",
        )
    made = Pin(name, tree, time.time())
    with convert_os_errors("pin an artifact", store.root):
        record = {"name": name, "tree": tree, "at": made.at}
        replace_file(str(_path(store, name)), encode_checksummed(record), store.parts.session.path("pin"))
    return made


def unpin(store: Store, name: str) -> None:
    """Give up a name.

    Raises:
        UsageError: when nothing has it.
    """
    with convert_os_errors("unpin an artifact", store.root):
        try:
            _path(store, name).unlink()
        except FileNotFoundError:
            names = ", ".join(one.name for one in pins(store)) or "none"
            raise UsageError(f"there is no pin {name!r}", why=f"pins: {names}", hint="orun store pins") from None


def pins(store: Store) -> tuple[Pin, ...]:
    """All pins by name.

    Raises:
        StoreError: when one cannot be read or was damaged: what it kept is not known.
    """
    with convert_os_errors("read the pins", store.root):
        paths = sorted((store.root / "pins").glob("*.json"))
    return tuple(Pin(**read_record(path)) for path in paths)


def _path(store: Store, name: str) -> Path:
    """Where a pin is, or is to be; under a name of its own where case is ignored and another pin has the plain one."""
    plain = store.root / "pins" / f"{safe_name(name)}.json"
    own = plain.with_name(f"{safe_name(name)}%{digest_bytes(name.encode())}.json")
    taken = store.ignores_case and seen_at(plain) and Pin(**read_record(plain)).name != name
    return own if taken or seen_at(own) else plain
