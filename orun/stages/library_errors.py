"""A library's error message in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orun.errors import OrunError, StageFailed
from orun.stages.contract import Context

LINES, LONGEST = 3, 300  # lines of a message, and characters of each
REST = "the log has the whole message"


def said(error: BaseException) -> str:
    """The class of an error and the first lines of its text; of one that others were raised from, that at the root."""
    while error.__cause__ is not None:  # libraries wrap what went wrong in general advice
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    return f"{type(error).__name__}: " + "\n".join(line[:LONGEST] for line in lines[:LINES])


@contextmanager
def failing(context: Context, what: str, hint: str = "") -> Iterator[None]:
    """Let whatever a library raises inside be a failure of the stage; the log has all of it.

    Args:
        context: of the stage.
        what: what the library could not do.
        hint: what to do instead.

    Raises:
        StageFailed: with what the library says; errors of orun's own are raised as they are.
    """
    try:
        yield
    except OrunError:
        raise
    except Exception as error:  # libraries raise whatever they run into
        context.log.exception("%s", what)
        raise StageFailed(context.stage, what, why=said(error), hint=f"{hint}; {REST}" if hint else REST) from error
