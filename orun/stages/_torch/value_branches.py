"""Branches of a module on the values of its inputs, which PyTorch's dynamo exporter cannot follow."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orun.stages.contract import Context

BRANCHING = "GuardOnDataDependentSymNode"


@contextmanager
def naming_value_branch(context: Context) -> Iterator[None]:
    """Turn PyTorch's message on its symbols into an error that names the line of a branch.

    Raises:
        StageFailed: when the module depends on a value.
    """
    try:
        yield
    except Exception as error:
        if (line := _find_value_branch(error, context.root)) is None:
            raise
        raise context.failed(
            "the module's forward depends on the values of its inputs, which an exported graph cannot",
            why=line,
            hint="compute both results and choose by torch.where, or return a module without that branch",
        ) from error


def _find_value_branch(error: BaseException, root: Path) -> str | None:
    """Return the line below `root` at which a module depends on a value; None if that is not why an export failed.

    The line is empty if no file below `root` is to blame.
    """
    while type(error).__name__ != BRANCHING:
        if error.__cause__ is None:
            return None
        error = error.__cause__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]
    return f"{Path(frames[-1].filename).relative_to(root)}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
