"""orun mcp: the verbs as tools for AI assistants."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from orun.cli.verb import Verb
from orun.errors import MissingPackages, UsageError

EXAMPLES = (
    ("orun mcp --root ~/models", "an assistant may list, check, plan, explain and compare what is there"),
    ("orun mcp --root ~/models --allow-run", "it may also run the pipelines, and so the code that they name"),
)


@click.command("mcp", cls=Verb, examples=EXAMPLES)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The folder whose pipelines the tools may use; the working folder by default.",
)
@click.option("--allow-run", is_flag=True, help="Let the tool `run` bring pipelines up to date.")
def command(root: Path, allow_run: bool) -> int:
    """Serve the verbs of orun as tools for AI assistants, by the Model Context Protocol (MCP).

    The assistant's program starts the server and talks to it over standard input and output. The tools only read, and
    refuse files outside of --root. With --allow-run the tool `run` brings pipelines up to date. That runs the code that
    they name.
    """
    if find_spec("mcp") is None:
        raise MissingPackages("orun mcp needs mcp, which is not installed", ["mcp"])
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}", hint="name another: orun mcp --root DIR")
    from orun.cli.mcp_server import serve

    serve(root, allow_run=allow_run)
    return 0
