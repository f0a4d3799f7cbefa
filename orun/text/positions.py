"""Positions in pipeline files as people and CI systems read them."""

from __future__ import annotations

import os

from orun.core.source_location import Position
from orun.text.suggestions import show_path

OVERRIDE = "--set"  # file name in positions of values from the command line


def format_position(position: Position) -> str:
    """Return a position for people; files below the working folder are relative to it."""
    if position.file == OVERRIDE:
        return OVERRIDE
    return f"{show_path(position.file)}:{position.line}:{position.column}"


def to_repository_path(file: str, variable: str) -> str:
    """Return the path of a file from the top of its repository, which a variable of a CI system names."""
    relative = os.path.relpath(file, os.environ.get(variable) or os.curdir)
    return file if relative.startswith(os.pardir) else relative
