"""Parametrisation of campaigns: a few cases run in `make test`, all of them in `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the values as parameters, all but `quick` marked slow. A tuple holds the values of several parameters.

    Raises:
        ValueError: if a quick value is not among the values.
    """
    values = list(values)
    if unknown := [value for value in quick if value not in values]:
        raise ValueError(f"not among the values: {unknown}")
    return [
        value if value in quick else _slow(*value) if isinstance(value, tuple) else _slow(value) for value in values
    ]


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)
