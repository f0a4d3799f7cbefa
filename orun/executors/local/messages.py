"""Messages from a stage's process and its supervisor to the runner, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from orun.core.serialization import Record, field
from orun.executors.job import Signature

Stop = Literal["", "cancelled", "timeout", "memory"]


class Trouble(Record, frozen=True):
    """Why a stage did not deliver, in the words of its own process.

    Attributes:
        error: the class of `orun.errors` that says it.
        what: one sentence.
        why: the cause.
        hint: how to mend it; may be empty.
        file: where it happened in the user's code or the kind's; empty when nowhere there.
        line: the line of it.
        function: the function that the line is in.
        name: a name that is not among the known ones; empty when that is not the trouble.
        known: the known names.
    """

    error: Literal["StageFailed", "OutputRefused"]
    what: str
    why: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    name: str = ""
    known: Sequence[str] = ()


class Ended(Record, frozen=True):
    """The process of a stage is gone.

    Attributes:
        status: as `wait` gives it.
        seconds: from its start to its end.
        cpu_seconds: of it and of the processes that it waited for.
        peak_memory: resident bytes of the largest of these.
        stopped: why the supervisor stopped it; empty when it did not.
        out_of_memory: the kernel killed some process for want of memory meanwhile.
        reads: files that were opened below Python: path -> signature when first opened, None when not there.
        written: files that were opened for writing below Python -> whether only to add to their end.
        missed: files that were to be opened for reading and writing, were not there, and were made.
        packages: distribution -> version of what processes have loaded that it started.
        probed: what was asked for below Python without being opened -> what was there, as
            `orun.fs.observed_state.appearance` has it.
        untraced: why some of what it opened below Python could not be seen; empty when all could, or nothing was to be.
    """

    status: int
    seconds: float
    cpu_seconds: float
    peak_memory: int
    stopped: Stop = ""
    out_of_memory: bool = False
    reads: Mapping[str, Signature | None] = field(default_factory=dict)
    written: Mapping[str, bool] = field(default_factory=dict)
    missed: Sequence[str] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    probed: Mapping[str, str] = field(default_factory=dict)
    untraced: str = ""
