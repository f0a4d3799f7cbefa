"""Verbs of the command line as `orun mcp` calls them: with `--json`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from orun.core.serialization import decode
from orun.core.source_location import Problem
from orun.errors import OrunError, PipelineError, UsageError
from orun.text.positions import format_position


async def run_verb(verb: str, options: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """Return what a verb prints with `--json`. A cancelled call stops the verb as Ctrl-C does.

    Raises:
        OrunError: the error that the verb prints.
    """
    program = [sys.executable, "-P", "-m", "orun.cli.mcp_child", str(os.getpid())]
    command = [*program, verb, "--json", *options, "--", *arguments]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None) as process:
        assert process.stdout  # noqa: S101 - it is a pipe
        try:
            output = b"".join([part async for part in process.stdout])
            await process.wait()
        except anyio.get_cancelled_exc_class():
            process.terminate()
            with anyio.CancelScope(shield=True):
                await process.wait()
            raise
    try:
        document: dict[str, Any] = json.loads(output)
    except ValueError as error:
        why = f"exit code {process.returncode}, and no JSON document"
        raise UsageError(f"orun {verb} gave no result", why=why, hint=f"orun {verb} --help") from error
    if "error" in document:
        raise _build_error(document["error"])
    return document


def format_overrides(values: Mapping[str, Any] | None) -> list[str]:
    """Return the options `--set` of values by dotted path."""
    pairs = {path: value if isinstance(value, str) else json.dumps(value) for path, value in (values or {}).items()}
    return [f"--set={path}={value}" for path, value in pairs.items()]


def format_selection(
    only: Sequence[str] | None, from_: Sequence[str] | None, to: Sequence[str] | None, *, fresh: bool
) -> list[str]:
    """Return the options that choose stages."""
    stages = {"only": only or (), "from": from_ or (), "to": to or ()}
    chosen = [f"--{option}={stage}" for option, names in stages.items() for stage in names]
    return [*chosen, *(["--fresh"] if fresh else [])]


def locate_problems(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return problems with their position as one text, `file:line:column`."""
    return [{**document, "location": format_position(decode(Problem, document).position)} for document in documents]


def _build_error(document: Mapping[str, Any]) -> OrunError:
    """Return the error in a JSON document of the command line."""
    if problems := document.get("problems"):
        return PipelineError([decode(Problem, problem) for problem in problems])
    return OrunError(document["problem"], why=document.get("why", ""), hint=document.get("hint", ""))
