"""A run that loses power: `python power.py STORE DEATH`, in the project's folder.

Before its change number DEATH to the store the process dies, and what it had not flushed to the disk is lost with it.
It prints each stage as soon as the run says that it is built: from then on its result has to outlive anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orun
from orun.core.events import Event, StageFinished
from tests.store.crash import Disk, say


def tell(event: Event) -> None:
    """Say which stage is built."""
    if isinstance(event, StageFinished) and event.result.outcome == "built":
        say(event.result.stage)


if __name__ == "__main__":
    disk = Disk(Path(sys.argv[1]), int(sys.argv[2]), power=True)
    orun.run("pipeline.yaml", store=sys.argv[1], on_event=tell)
    say(f"changes {disk.count}")
