"""Candidates of garbage collection, announced so that running processes stay clear of them.

A collection writes its candidates, then reads all leases, spares what is leased, and removes the rest. A process writes
its lease, then looks whether what it wants is a candidate, and if so waits for the end of the collection. Whoever comes
first is seen by the other, so nothing is removed that a process has found to be there, or is making.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from orun.fs.durable import write_file
from orun.fs.locks import Lock


class GcCandidates:
    """List of digests, and ids of runs, that a collection in progress may remove."""

    def __init__(self, root: Path) -> None:
        self._path = str(root / "tmp" / "condemned")  # a name that other versions of orun know
        self._root = root

    def build_lock(self) -> Lock:
        """Return the lock that a collection holds from before it writes the list until it has removed it."""
        return Lock(self._root / "locks" / "gc")

    def write(self, names: Collection[str]) -> None:
        """Write the list atomically."""
        temporary = f"{self._path}.{os.getpid()}-{os.urandom(6).hex()}"  # process ids repeat in containers
        write_file(temporary, "".join(f"{name}\n" for name in names).encode("ascii"))
        os.rename(temporary, self._path)

    def clear(self) -> None:
        """Remove the list."""
        Path(self._path).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the list of a collection that was killed. Does nothing while one is in progress."""
        folder, prefix = os.path.split(self._path)
        leftovers = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(prefix)]
        with self.build_lock() as lock:
            if leftovers and lock.take(wait=False):
                for path in leftovers:
                    Path(path).unlink(missing_ok=True)

    def wait_for(self, names: Collection[str]) -> None:
        """Wait for the end of a collection if one of these is a candidate."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                candidates = set(file.read().split())
        except FileNotFoundError:
            return
        if not candidates.isdisjoint(names):
            with self.build_lock() as lock:
                lock.acquire()
                self.clear()  # it is still there if the collection was killed
