"""Pins: artifacts that garbage collection keeps because somebody named them, `pins/<name>.json`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from orun.errors import StoreError, UsageError
from orun.fs.durable import replace_file
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import convert_os_errors
from orun.store.checksummed_json import encode_checksummed, read_record
from orun.store.layout import to_safe_name
from orun.store.store import Store


@dataclass(frozen=True)
class Pin:
    """A named artifact: digest of its tree, and when it was pinned (seconds since the epoch)."""

    name: str
    tree: str
    at: float


def pin(store: Store, name: str, tree: str) -> Pin:
    """Name an artifact, so that it is kept until it is unpinned. A name in use moves to the new artifact.

    Raises:
        StoreError: if the artifact is damaged, or the pin cannot be written.
        UsageError: if the name cannot be shown, or differs from a pin in case alone where case does not count.
    """
    if not (name and name.isprintable()):
        raise UsageError(f"a pin cannot be called {name!r}", why="its name must be printable")
    path = _locate(store, name)
    if store.ignores_case and stat_presence(path) and (other := Pin(**read_record(path)).name) != name:
        raise UsageError(
            f"there is a pin {other!r} already",
            why=f"the file system of {store.root} ignores case in names",
            hint="Choose another name: orun store pin NAME ARTIFACT",
        )
    if problems := store.check(tree):
        raise StoreError(
            f"cannot pin {tree} as {name!r}",
            why="\n".join(problems),
            hint="Run the pipeline again, which repairs it, and pin the new artifact: orun FILE",
        )
    new = Pin(name, tree, time.time())
    with convert_os_errors("pin an artifact", store.root):
        record = {"name": name, "tree": tree, "at": new.at}
        replace_file(str(path), encode_checksummed(record), store.parts.session.choose_path("pin"))
    return new


def unpin(store: Store, name: str) -> None:
    """Remove a pin.

    Raises:
        UsageError: if there is no such pin.
    """
    with convert_os_errors("unpin an artifact", store.root):
        try:
            _locate(store, name).unlink()
        except FileNotFoundError:
            names = ", ".join(pin.name for pin in list_pins(store)) or "none"
            raise UsageError(f"there is no pin {name!r}", why=f"pins: {names}", hint="orun store pins") from None


def list_pins(store: Store) -> tuple[Pin, ...]:
    """Return all pins by name.

    Raises:
        StoreError: if a pin cannot be read or was damaged: the artifact that it keeps is not known.
    """
    with convert_os_errors("read the pins", store.root):
        paths = sorted((store.root / "pins").glob("*.json"))
    return tuple(Pin(**read_record(path)) for path in paths)


def _locate(store: Store, name: str) -> Path:
    return store.root / "pins" / f"{to_safe_name(name)}.json"
