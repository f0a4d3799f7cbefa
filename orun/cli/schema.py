"""orun schema: the JSON Schemas of pipeline files and of the event log."""

from __future__ import annotations

import click

from orun.cli import options
from orun.cli.verb import Verb

EXAMPLES = (
    ("orun schema > pipeline.schema.json", "for an editor; the first line of a pipeline file names it, as above"),
    ("orun schema --events > events.schema.json", "for a program that reads event logs"),
)


@click.command("schema", cls=Verb, examples=EXAMPLES)
@click.option("--events", is_flag=True, help="Print that of a line of the event log instead.")
def command(events: bool) -> int:
    """Print the JSON Schema (draft 7) of pipeline files, made from the stage kinds of this installation.

    An editor with a YAML language server completes and explains every key when the file begins with
    `# yaml-language-server: $schema=pipeline.schema.json`.
    """
    from orun.pipeline import schema
    from orun.pipeline.providers import list_installed_providers
    from orun.report import event_schema
    from orun.stages.plugins import load_all
    from orun.stages.registry import BUILTIN, list_kinds
    from orun.text.suggestions import Unknown

    if events:
        options.show_json(event_schema.build())
        return 0
    plug_ins = (kind for kind in load_all(BUILTIN) if not isinstance(kind, Unknown))
    options.show_json(schema.build((*list_kinds(), *plug_ins), list_installed_providers()))
    return 0
