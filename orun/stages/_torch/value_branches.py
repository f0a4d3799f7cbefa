"""Branches of a module on the values of its inputs, which PyTorch's dynamo exporter cannot follow."""

from __future__ import annotations

import traceback
from pathlib import Path

BRANCHING = "GuardOnDataDependentSymNode"


def find_value_branch(error: BaseException, root: Path) -> str | None:
    """Return the line below `root` at which a module depends on a value; None if that is not why an export failed.

    The line is empty if no file below `root` is to blame.
    """
    while type(error).__name__ != BRANCHING:
        if error.__cause__ is None:
            return None
        error = error.__cause__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]
    return f"{Path(frames[-1].filename).relative_to(root)}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
