"""Messages from a stage's process and its supervisor to the runner, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from orun.core.serialization import Record, field
from orun.fs.signatures import Signature

Stop = Literal["", "cancelled", "timeout", "memory"]


class Trouble(Record, frozen=True):
    """Failure of a stage, reported by its own process.

    Attributes:
        error: class of `orun.errors` that says it.
        message: one sentence.
        why: the cause.
        hint: how to fix it; may be empty.
        file: location in the user's code or the kind's; empty if there is none.
        line: line of the location.
        function: function of the location.
        name: an unknown name that was used; empty if that is not the failure.
        known: the known names.
        packages: distributions that are not installed; empty if that is not the failure.
        module: a module that was not found; empty if that is not the failure.
        shortage: errno of what the machine has run out of, such as disk space; 0 if that is not the failure.
        missing: paths that files which were not found may have been meant to have; none if that is not the failure.
        settings: values of the stage's parameters with which it would not have failed so.
    """

    error: Literal["StageFailed", "OutputRefused"]
    message: str
    why: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    name: str = ""
    known: Sequence[str] = ()
    packages: Sequence[str] = ()
    module: str = ""
    shortage: int = 0
    missing: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


class Ended(Record, frozen=True):
    """End of a stage's process, as its supervisor saw it.

    Attributes:
        status: wait status.
        seconds: wall time.
        cpu_seconds: CPU time of the process and of the child processes that it waited for.
        peak_memory: resident bytes of the largest of these.
        stopped: why the supervisor stopped it; empty if it did not.
        out_of_memory: whether the kernel killed some process meanwhile because memory ran out.
        reads: files opened below Python: path -> signature when first opened, None if missing.
        written: files opened for writing below Python -> whether only to append.
        missed: files opened for reading and writing that were missing, and were created.
        packages: distribution -> version of what child processes loaded.
        probed: path probed below Python, but not opened -> `orun.fs.observed_state.observe_appearance`.
        untraced: why some opens below Python were not seen; empty if all were, or tracing is off.
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
