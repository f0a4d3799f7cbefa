"""Detection of an orun that runs inside a stage of another one and would wait for that stage's locks."""

from __future__ import annotations

import os

from orun.core.serialization import Record
from orun.errors import UsageError

VARIABLE = "ORUN_STAGE"  # set in the process of a stage, and in those that it starts
ALONE, BESIDE = "alone", "beside"


class Outer(Record, frozen=True):
    """The stage around this process.

    Attributes:
        stage: its id.
        key: its key, whose lock is held for it.
        alone: whether it has the machine to itself; else it shares it, and nobody has that to himself meanwhile.
    """

    stage: str
    key: str
    alone: bool

    def refuse(self, stage: str, key: str, *, exclusive: bool) -> None:
        """Raise UsageError when a stage of this orun would wait for what the one around it holds until it ends."""
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


def enter(stage: str, key: str, *, alone: bool) -> None:
    """Say to processes that this one starts in which stage they are."""
    os.environ[VARIABLE] = f"{ALONE if alone else BESIDE} {key} {stage}"


def outer() -> Outer | None:
    """The stage around this process; None where there is none."""
    how, _, rest = os.environ.get(VARIABLE, "").partition(" ")
    key, _, stage = rest.partition(" ")
    return Outer(stage, key, how == ALONE) if how in (ALONE, BESIDE) and stage else None
