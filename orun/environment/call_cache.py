"""Cache for the length of one API call: a notebook may install packages between two calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_cached: list[functools._lru_cache_wrapper[object]] = []


def cache_calls(function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
    """Cache results like `functools.cache`, until `forget` is called."""
    cached = functools.cache(function)
    _cached.append(cached)
    return cached


def forget() -> None:
    """Clear all these caches."""
    for cached in _cached:
        cached.cache_clear()
