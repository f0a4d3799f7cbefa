"""Registry of renderers: functions of rooms above by which run records, plans and reasons show themselves.

A renderer is registered by the names of its module and function, and imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

Renderer = Literal["write_html", "to_frame", "notebook_html", "notebook_progress", "plan_html", "reason_text"]

_references: dict[Renderer, tuple[str, str]] = {}


def register(renderer: Renderer, module: str, function: str) -> None:
    """Register the function of a module as a renderer."""
    _references[renderer] = module, function


def load_renderer(renderer: Renderer) -> Callable[..., Any]:
    """Return a renderer, imported now.

    Raises:
        LookupError: if none is registered.
    """
    if renderer not in _references:
        raise LookupError(f"no renderer {renderer!r} is registered: import orun.api first")
    module, function = _references[renderer]
    renderer_function: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return renderer_function
