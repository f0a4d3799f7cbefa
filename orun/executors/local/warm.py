"""The user's code, compiled in the process that stages are forked from: 20 ms of CPU a stage for 300 lines."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

from orun.executors.local.module_sources import read_source
from orun.stages.code import compile_beforehand


def compile_for_forks(path: str) -> None:
    """Parse and compile a Python file; a stage that finds the same content in it uses that, and none runs it here.

    A file that is not there, or that the compiler refuses or warns of, each stage meets as it is.
    """
    with contextlib.suppress(OSError, SyntaxError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("error")
        text = Path(path).read_bytes()
        compile_beforehand(path, text)
        read_source(text)
