"""Offer of `orun init` where a command line names a model instead of a pipeline file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from orun.cli.init_dialogue import is_interactive
from orun.errors import UsageError
from orun.fs.os_errors import quoted
from orun.scaffold.paths import MODELS

FOLDER_FILES = ("config.json", "saved_model.pb")


def is_model(word: str) -> bool:
    """Whether a word names a model that exists: a file, a folder, or `file.py:function`."""
    path, separator, _ = word.rpartition(":")
    if separator and path.endswith(".py"):
        return os.path.isfile(path)  # noqa: PTH113 - a word may be no path at all
    if os.path.isdir(word):  # noqa: PTH112
        return any(Path(word, name).is_file() for name in FOLDER_FILES)
    return word.lower().endswith(MODELS) and os.path.lexists(word)


def accept_init(word: str) -> None:
    """Ask whether to write a pipeline for a model.

    Raises:
        UsageError: when nobody can be asked, or the answer is no.
    """
    question = f"{word} is a model, not a pipeline file. Write a pipeline for it?"
    if not is_interactive(yes=False) or not click.confirm(question, default=True, err=True):
        hint = f"to write a pipeline for it: orun init {quoted(word)}"
        raise UsageError(f"{word} is a model, not a pipeline file", hint=hint)
