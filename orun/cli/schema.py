"""orun schema: the JSON Schema of pipeline files."""

from __future__ import annotations

import click

from orun.cli import options
from orun.cli.verb import Verb

EXAMPLES = (("orun schema > pipeline.schema.json", "for an editor; first line of a pipeline file: see below"),)


@click.command("schema", cls=Verb, examples=EXAMPLES)
def command() -> int:
    """Print the JSON Schema (draft 7) of pipeline files, made from the stage kinds of this installation.

    An editor with a YAML language server completes and explains every key when the file begins with
    `# yaml-language-server: $schema=pipeline.schema.json`.
    """
    from orun.pipeline import schema

    options.show_json(schema.build())
    return 0
