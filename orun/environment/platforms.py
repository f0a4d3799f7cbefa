"""Support for operating systems: functions that only Linux has, and the refusal of Windows."""

from __future__ import annotations

import sys

from orun.errors import UsageError

# Functions without effect on macOS and other Unix systems. `orun doctor` reports reads below Python as `trace`.
LINUX_ONLY = (
    "`resources.memory` reserves memory for a stage, and does not stop a stage that takes more",
    "a process that a stage starts and leaves behind is ended only if it stayed in the stage's process group",
    "measurements choose no quiet core, and do not tell how long threads waited for one",
)


def list_missing_functions() -> tuple[str, ...]:
    """Return a clause for each function that this system lacks; nothing on Linux."""
    return () if sys.platform == "linux" else LINUX_ONLY


def require_posix(action: str) -> None:
    """Refuse a function or verb that needs the locks, signals and forked processes of a Unix system.

    Raises:
        UsageError: on Windows.
    """
    if sys.platform == "win32":
        raise UsageError(
            f"{action} does not work on Windows",
            why="it needs the locks, signals and processes of Linux or macOS; `validate`, `plan`, `explain`, `graph`,"
            " `stages` and `schema` work here",
            hint="run it in the Windows Subsystem for Linux (WSL): wsl --install",
        )


def name_here() -> str:
    """Return the name of this system, for people."""
    import platform

    return "macOS" if sys.platform == "darwin" else platform.system()
