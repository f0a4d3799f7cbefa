"""orun graph: the stages and what feeds them."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.outputs import look_at, output_option, write
from orun.cli.verb import Verb
from orun.errors import UsageError
from orun.report.document import dumps

if TYPE_CHECKING:
    from orun.pipeline.model import Pipeline

EXAMPLES = (
    ("orun graph pipelines/bert.yaml", "one line a stage: its kind and what it needs"),
    ("orun graph pipelines/bert.yaml --open", "a picture, in a browser"),
    ("orun graph pipelines/bert.yaml --format svg > bert.svg", "a picture for a page"),
    ("orun graph pipelines/bert.yaml --format mermaid", "a chart for Markdown"),
)
PICTURES = ("svg", "html")
FORMS = {  # by the suffix of the output
    ".svg": "svg",
    ".html": "html",
    ".dot": "dot",
    ".mmd": "mermaid",
    ".txt": "text",
}


@click.command("graph", cls=Verb, examples=EXAMPLES)
@options.file_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", *PICTURES]),
    default=None,
    help="How to draw it; by the suffix of the output when left out, as text without one.",
)
@output_option("--output", "Write it to this file.", "-o")
@click.option("--open", "show", is_flag=True, help="Open the picture in a browser.")
@options.set_option
@options.json_option
def command(
    file: str, form: str | None, output: Path | None, show: bool, overrides: Sequence[str], as_json: bool
) -> int:
    """Show the stages of FILE in the order in which they may run, and what each needs."""
    if as_json and (show or form):
        raise UsageError(f"--json and {'--open' if show else '--format'} contradict each other", hint="use one of them")
    pipeline = orun.load(file, options.parse_overrides(overrides))
    if output is not None:
        _refuse_read(output, pipeline)
    form = form or ("text" if as_json else _choose_form(output, "html" if show else "text"))
    if show and form not in PICTURES:
        raise UsageError(f"a browser shows no graph as {form}", hint="orun graph FILE --format svg --open")
    text = dumps(_to_data(pipeline)) if as_json else _draw(pipeline, form)
    if show and output is None:
        output = Path(tempfile.mkdtemp(prefix="orun-")) / f"graph.{form}"
    if output is None:
        options.show([text])
        return 0
    picture = look_at(output)
    write(picture, f"{text}\n")
    if not picture.is_stream:
        options.show([f"wrote {output}"])
    if show:
        webbrowser.open(output.absolute().as_uri())
    return 0


def _refuse_read(output: Path, pipeline: Pipeline) -> None:
    """Refuse an output that would replace what a run reads, or what only orun writes."""
    from orun.noop.overwrites import list_pipeline_files, refuse, refuse_in_records
    from orun.store.layout import locate_default_store

    refuse([output], list_pipeline_files(pipeline))
    refuse_in_records([output], locate_default_store(pipeline.root))


def _choose_form(output: Path | None, default: str) -> str:
    """Return the form that the suffix of the output stands for, or the default without one.

    Raises:
        UsageError: when it stands for none: a table of text in a .png opens nowhere.
    """
    if output is None or not output.suffix:
        return default
    if form := FORMS.get(output.suffix.lower()):
        return form
    raise UsageError(
        f"a graph cannot be drawn as {output.suffix}",
        why=f"expected one of {', '.join(FORMS)}",
        hint=f"orun graph FILE -o {output.with_suffix('.svg')}; or say what to write there: --format text",
    )


def _draw(pipeline: Pipeline, form: str) -> str:
    if form in PICTURES:
        from orun.report.html.graph import render_graph_file

        return render_graph_file(pipeline, form)
    from orun.pipeline.graph import RENDERERS

    return RENDERERS[form](pipeline)


def _to_data(pipeline: Pipeline) -> dict[str, Any]:
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
