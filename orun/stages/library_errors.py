"""Errors of libraries as failures of a stage, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orun.errors import OrunError
from orun.stages.contract import Context
from orun.text.library_messages import shorten_message

REST = "the log has the whole message"


def describe_error(error: BaseException) -> str:
    """Return the class and the first lines of an error, or of its root cause."""
    while error.__cause__ is not None:  # libraries wrap the cause in general advice
        error = error.__cause__
    return f"{type(error).__name__}: {shorten_message(str(error))}"


@contextmanager
def failing(context: Context, message: str, hint: str = "") -> Iterator[None]:
    """Turn errors of a library into failures of the stage; the log has the whole traceback.

    Raises:
        StageFailed: with the library's message; orun's own errors are raised as they are.
    """
    try:
        yield
    except OrunError:
        raise
    except Exception as error:  # libraries raise errors of any class
        context.log.exception("%s", message)
        why = describe_error(error)
        raise context.failed(message, why=why, hint=f"{hint}; {REST}" if hint else REST) from error
