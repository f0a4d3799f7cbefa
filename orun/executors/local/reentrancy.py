"""Detection of an orun that runs inside a stage of another orun and would wait for that stage's locks."""

from __future__ import annotations

import os

from orun.core.serialization import Record
from orun.errors import UsageError

VARIABLE = "ORUN_STAGE"  # set in the process of a stage; its child processes inherit it
ALONE, SHARED = "alone", "beside"


class EnclosingStage(Record, frozen=True):
    """Stage of another orun in which this process runs.

    Attributes:
        stage: its id.
        key: its cache key, whose lock its orun holds.
        alone: whether it holds the machine lock exclusively; otherwise it shares it.
    """

    stage: str
    key: str
    alone: bool

    def refuse_deadlock(self, stage: str, key: str, *, exclusive: bool) -> None:
        """Raise UsageError if a stage of this orun would wait for a lock that the enclosing stage holds."""
        if key == self.key:
            why = f"it is the same as {self.stage}, which waits for it"
        elif self.alone:
            why = f"{self.stage} measures, and has the machine to itself until it ends"
        elif exclusive:
            why = f"{stage} measures, and needs the machine to itself, which {self.stage} shares until it ends"
        else:
            return
        raise UsageError(
            f"{stage} would wait for ever: this orun runs in the stage {self.stage} of another one",
            why=why,
            hint=f"give {self.stage} what it makes as an input, or run it outside of a stage",
        )


def mark_process(stage: str, key: str, *, alone: bool) -> None:
    """Tell child processes of this one in which stage they run."""
    os.environ[VARIABLE] = f"{ALONE if alone else SHARED} {key} {stage}"


def find_enclosing_stage() -> EnclosingStage | None:
    """Return the stage in which this process runs, if any."""
    mode, _, rest = os.environ.get(VARIABLE, "").partition(" ")
    key, _, stage = rest.partition(" ")
    return EnclosingStage(stage, key, mode == ALONE) if mode in (ALONE, SHARED) and stage else None
