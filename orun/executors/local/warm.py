"""Work that many stages would do alike, done once in the process that they are forked from."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

from orun.executors.local.module_sources import read_source
from orun.executors.tracing import modules
from orun.executors.tracing.scope import scope_of
from orun.stages.code import compile_beforehand


def look_beforehand(*made_of: tuple[str, ...]) -> None:
    """Find out what the user's files are, for the stages that have one scope."""
    modules.looked_at(scope_of(*made_of))


def parse_beforehand(path: str) -> None:
    """Parse and compile a Python file; a stage that finds the same content in it uses that, and none runs it here.

    A file that is not there, or that the compiler refuses or warns of, each stage meets as it is.
    """
    with contextlib.suppress(OSError, SyntaxError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("error")
        text = Path(path).read_bytes()
        compile_beforehand(path, text)
        read_source(text)
