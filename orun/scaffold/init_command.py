"""The command of `orun init` that writes a pipeline once more, for messages that advise it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from orun.scaffold.paths import choose_file
from orun.scaffold.request import Request

TORCHSCRIPT = (".pt", ".pth")


def format_init_command(file: Path, request: Request) -> str:
    """Return the command that writes a file with all options of a request; made-up examples are made up again."""
    return shlex.join(_iter_arguments(file, request))


def _iter_arguments(file: Path, request: Request) -> Iterator[str]:
    facts = request.facts
    source = os.path.normpath(file.parent / facts.source)
    yield from ("orun", "init", source)
    if facts.needs_trust:
        yield "--trust"
    if not request.target.is_cpu:
        yield from ("--target", request.target.name)
    is_silent = facts.form == "tensorflow" or ".py:" in facts.source or facts.source.lower().endswith(TORCHSCRIPT)
    for item in facts.inputs if is_silent else ():
        yield from ("--input", f"{item.name}={item.dtype}[{','.join(map(str, item.shape))}]")
    if request.has_own_data:
        yield from ("--data", os.path.normpath(file.parent / request.data_source))
    if request.goal:
        yield from ("--goal", ", ".join(condition.text for condition in request.goal))
    if file != choose_file(source):
        yield from ("-o", str(file))
