"""ONNX Runtime's execution providers and the options that each reads: the table `providers.toml`.

ONNX Runtime ignores most misspelt options, with a message on stderr at best. It ignores misspelt session entries
silently. The table is read when it is first needed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

# A tuple lists the values of an option; `providers.toml` says how the others are given to a provider.
OptionType = Literal["bool", "flag", "int", "str"] | tuple[str, ...]
Options = Mapping[str, OptionType]


@functools.cache
def provider_options() -> Mapping[str, Options | None]:
    """Return the options of each provider by its name; None where they are not listed, so that any are accepted."""
    return {name: _options(entry.get("options")) for name, entry in _table()["providers"].items()}


@functools.cache
def session_entries() -> tuple[str, ...]:
    """Return the configuration entries of a session that are known; there may be others."""
    return tuple(_table()["session_entries"])


def provider_libraries(provider: str) -> tuple[str, ...]:
    """Return the distributions whose version decides what an engine that a provider has compiled is valid for."""
    return tuple(_table()["providers"].get(provider, {}).get("libraries", ()))


def _options(options: Mapping[str, Any] | None) -> Options | None:
    if options is None:
        return None
    return {name: tuple(kind) if isinstance(kind, list) else kind for name, kind in options.items()}


@functools.cache
def _table() -> Mapping[str, Any]:
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath("providers.toml").read_text("utf-8"))
