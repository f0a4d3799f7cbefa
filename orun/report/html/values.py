"""Values of parameters, which a cache key holds as JSON, as people write them."""

from __future__ import annotations

import json


def plain_value(text: str) -> str:
    """Return a value without the marks of JSON: `int8`, `cosine, recall_at_1`, `low 0, high 1`."""
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value)
