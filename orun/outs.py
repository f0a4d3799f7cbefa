"""The artifacts of a run where people open them: put there as stages are done, and there still when the run ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orun.store import Action, Store


@dataclass
class Outs:
    """The folders `out/<pipeline>/<stage>/` of a run.

    Attributes:
        store: whose they are.
        pipeline: its name.
    """

    store: Store
    pipeline: str
    _placed: dict[str, tuple[Action, Path, int]] = field(default_factory=dict)

    def put(self, stage: str, action: Action) -> tuple[Path, bool]:
        """Make the output of a stage be its artifact; the bool says whether it was not."""
        out, restored = self.store.checkout(action.tree, self.pipeline, stage)
        self._placed[stage] = action, out, _inode(out)
        return out, restored

    def put_back(self) -> Iterator[str]:
        """Put back what another run has replaced since, and say so."""
        for stage, (action, out, inode) in list(self._placed.items()):
            if _inode(out) != inode and self.put(stage, action)[1]:
                yield (
                    f"{stage}: another run had put its own into {out}, which is this run's again; pipelines of one "
                    "name in one store replace each other's outputs: give one of them another name, or --store"
                )


def _inode(path: Path) -> int:
    """Which folder it is, which is replaced as a whole; 0 when there is none."""
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return 0
