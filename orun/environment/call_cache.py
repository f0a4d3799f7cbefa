"""Cache that lives for one call of the API, because a notebook may install packages between two calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_cached: list[functools._lru_cache_wrapper[object]] = []


def once(function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
    """As `functools.cache`, until `forget`."""
    cached = functools.cache(function)
    _cached.append(cached)
    return cached


def forget() -> None:
    """Find everything out anew."""
    for cached in _cached:
        cached.cache_clear()
