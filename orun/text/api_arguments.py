"""Arguments of the Python API, checked as the command line checks its options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from orun.errors import UsageError

PathLike = str | os.PathLike[str]


def require_path(parameter: str, path: object) -> PathLike:
    """Return a path; refuse anything else.

    Raises:
        UsageError: when it is neither a text nor a path.
    """
    if isinstance(path, str | os.PathLike):
        return path
    raise UsageError(f"{parameter} must be a path, not {path!r}")


def format_values(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return values as `--set` has them: text as it is, anything else as JSON, which YAML contains."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise UsageError(f"set must map paths to values, not {values!r}", hint='set={"vars.sequence": 64}')
    return {name: value if isinstance(value, str) else _format_value(name, value) for name, value in values.items()}


def _format_value(name: str, value: object) -> str:
    try:
        return json.dumps(value, default=_to_plain)
    except (TypeError, ValueError) as error:
        raise UsageError(f"set has {value!r} for {name}, which no YAML file can hold") from error


def _to_plain(value: Any) -> object:
    """Return a number of NumPy or a path as JSON has it."""
    if "numpy" in sys.modules and hasattr(value, "tolist"):
        return value.tolist()
    plain = os.fspath(value)
    if isinstance(plain, str):
        return plain
    raise TypeError


def as_list(parameter: str, items: PathLike | Iterable[PathLike]) -> list[str]:
    """Return names or paths as a list; a text or a path is a single item.

    Raises:
        UsageError: when they are anything else.
    """
    try:
        return [os.fspath(item) for item in ([items] if isinstance(items, str | os.PathLike) else items)]
    except TypeError as error:
        raise UsageError(f"{parameter} must be a text, a path or several of them, not {items!r}") from error


def require_limits(jobs: object, gpus: object, wait: object) -> None:
    """Refuse numbers of a run that the command line would refuse as well.

    Raises:
        UsageError: with the first of them.
    """
    for parameter, value, least in (("jobs", jobs, 1), ("gpus", gpus, 0)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise UsageError(f"{parameter} must be an integer of at least {least}, not {value!r}")
    if not isinstance(wait, int | float) or isinstance(wait, bool) or not wait >= 0:
        raise UsageError(f"wait must be a number of seconds, not {wait!r}")
