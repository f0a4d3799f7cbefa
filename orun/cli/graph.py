"""orun graph: the stages and what feeds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.verb import Verb

if TYPE_CHECKING:
    from orun.pipeline.model import Pipeline

EXAMPLES = (
    ("orun graph pipelines/bert.yaml", "one line a stage: its kind and what it needs"),
    ("orun graph pipelines/bert.yaml --format mermaid", "a chart for Markdown"),
    ("orun graph pipelines/bert.yaml --format dot | dot -Tsvg > bert.svg", "a picture, by Graphviz"),
)


@click.command("graph", cls=Verb, examples=EXAMPLES)
@options.file_argument
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "dot"]), default="text", help="How to draw it.")
@options.set_option
@options.json_option
def command(file: str, form: str, overrides: Sequence[str], as_json: bool) -> int:
    """Show the stages of FILE in the order in which they may run, and what each needs."""
    from orun.pipeline.graph import RENDERERS

    pipeline = orun.load(file, options.parse_overrides(overrides))
    if as_json:
        options.show_json(_data(pipeline))
    else:
        options.show([RENDERERS[form](pipeline)])
    return 0


def _data(pipeline: Pipeline) -> dict[str, Any]:
    stages = [
        {
            "stage": stage.id,
            "uses": stage.uses,
            "needs": stage.needs,
            "after": stage.after,
            "guards": stage.guards,
        }
        for stage in pipeline.stages
    ]
    return {"pipeline": pipeline.name, "stages": stages}
