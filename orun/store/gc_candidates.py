"""Candidates of garbage collection, announced so that running processes stay clear of them.

A collection writes down what it condemns, then reads all leases, spares what is leased, and removes the rest. A process
writes its lease, then looks whether what it wants is candidates, and if so waits for the end of the collection. Whoever
comes first is seen by the other, so nothing is removed that somebody has found to be there.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from orun.fs.durable import write_file
from orun.fs.locks import Lock


class GcCandidates:
    """The list of digests, and ids of runs, that a collection in progress may remove."""

    def __init__(self, root: Path) -> None:
        self._path = str(root / "tmp" / "condemned")
        self._root = root

    def lock(self) -> Lock:
        """The lock that a collection holds from before it writes the list until after it has removed it."""
        return Lock(self._root / "locks" / "gc")

    def write(self, digests: Collection[str]) -> None:
        """Write the list, which is there as a whole or not at all."""
        temporary = f"{self._path}.{os.getpid()}-{os.urandom(6).hex()}"  # ids of processes are few in containers
        write_file(temporary, "".join(f"{digest}\n" for digest in digests).encode("ascii"))
        os.rename(temporary, self._path)

    def clear(self) -> None:
        """Remove the list."""
        Path(self._path).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a collection has left that was killed; nothing happens while one goes on."""
        folder, name = os.path.split(self._path)
        left = [f"{folder}/{one}" for one in os.listdir(folder) if one.startswith(name)]
        with self.lock() as lock:
            if left and lock.take(wait=False):
                for path in left:
                    Path(path).unlink(missing_ok=True)

    def wait_for(self, digests: Collection[str]) -> None:
        """Wait for the end of a collection if one of these is candidates."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                candidates = set(file.read().split())
        except FileNotFoundError:
            return
        if not candidates.isdisjoint(digests):
            with self.lock() as lock:
                lock.acquire()
                self.clear()  # there still if the collection was killed
