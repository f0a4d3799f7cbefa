"""Python's warnings in the log of a stage."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_to(log: logging.Logger) -> Iterator[list[warnings.WarningMessage]]:
    """Write each warning of a library to the log once, regardless of the process's warning filters; yield them all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    for text in dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught):
        log.info("%s", text)
