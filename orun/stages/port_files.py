"""Files in the output of the stage at an input port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orun.stages.contract import Context


def find_only_file(context: Context, port: str, noun: str, suffixes: Sequence[str]) -> Path:
    """Return the only file at an input port whose name ends in one of these suffixes, in letters of either case.

    Raises:
        StageFailed: when there is not exactly one.
    """
    folder = context.inputs[port]
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    if len(files) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in files) or "none"
        problem = f"the input `{port}` must hold one {noun}: {', '.join(suffixes)}"
        raise context.failed(problem, why=f"found {names}")
    return files[0]
