"""orun init: a pipeline for a model that exists, a workflow for a pipeline, or a template of a custom stage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.complete import complete_target
from orun.cli.init_workflow import plan_workflow, write_workflow, write_workflow_alone
from orun.cli.outputs import look_at, write_file
from orun.cli.verb import Verb
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.goal import check_goal
from orun.scaffold.paths import choose_file, list_models, require_free
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.core.events import Event
    from orun.scaffold.ci import System
    from orun.scaffold.create import Created
    from orun.scaffold.request import Request

EXAMPLES = (
    ("orun init model.onnx", "read the model, build it once, write model.yaml with measured gates"),
    ("orun init ./my-bert -o pipelines/bert.yaml", "a folder of transformers"),
    ("orun init net.py:load --input 'image=float32[batch,3,32,32]'", "a function that returns a PyTorch module"),
    ('orun init model.onnx --goal "size<25MB, p50<10ms, cosine>0.99"', "search for a model that reaches a goal"),
    ("orun init model.onnx --data digits.py:examples --ci github", "with your own examples, and a workflow"),
    ("orun init pipelines/bert.yaml --ci github", "a workflow for a pipeline that exists"),
    ("orun init model.onnx --dry-run", "print the file; build and write nothing"),
    ("orun init --stage ops.py:count", "a template of a custom stage"),
)
PIPELINES = (".yaml", ".yml")


@click.command("init", cls=Verb, examples=EXAMPLES)
@click.argument("model", required=False, default="", type=click.Path())
@click.option("-o", "--output", metavar="FILE", help="The pipeline file; named after the model when left out.")
@click.option(
    "--goal",
    default="",
    metavar="CONDITIONS",
    help="What the release must reach, such as 'size<25MB, p50<10ms, cosine>0.99'. Searches for a model that does.",
)
@click.option(
    "--data", default="", metavar="DATA", help="Your examples: file.py:function, a file, or a folder of images."
)
@click.option(
    "--target",
    "target_name",
    default="cpu",
    metavar="NAME",
    shell_complete=complete_target,
    help="Execution provider, such as cpu, cuda or openvino.",
)
@click.option(
    "--ci",
    type=click.Choice(("github", "gitlab")),
    help="Also write a workflow for that CI system; for a pipeline file, nothing else.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[AXES]",
    help="An input of a PyTorch or TensorFlow model whose file does not say. Repeatable.",
)
@click.option("--trust", is_flag=True, help="Unpickle a scikit-learn file, which runs the code in it.")
@click.option("--stage", "stage", default="", metavar="FILE[:FUNCTION]", help="Write a template of a custom stage.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing, also in a terminal.")
@click.option("--dry-run", is_flag=True, help="Print the file without measured gates; build and write nothing.")
@options.store_option
def command(  # noqa: PLR0913 - the options of the command line
    *,
    model: str,
    output: str | None,
    goal: str,
    data: str,
    target_name: str,
    ci: System | None,
    inputs: Sequence[str],
    trust: bool,
    stage: str,
    yes: bool,
    dry_run: bool,
    store: Path | None,
) -> int:
    """Write a pipeline for a model.

    MODEL is an .onnx file, a folder of transformers, a .pt2, .pt or .pth file, a SavedModel, a Keras or TFLite file, a
    .joblib or .pkl file of a scikit-learn estimator, a .json, .ubj, .txt or .cbm file of trees, or file.py:function.
    The pipeline is built once, so that its gates have thresholds measured on this machine. A stage that refuses the
    model is left out, and the file says why.

    With --ci, MODEL may be a pipeline file, .yaml or .yml. Then init writes its workflow and changes no other file.

    In a terminal, init asks for what the options leave open.
    """
    from orun.cli.init_dialogue import Answers, ask, is_interactive
    from orun.scaffold.inspection_process import declare_data, read_model
    from orun.scaffold.request import Request
    from orun.scaffold.targets import find_target

    if stage:
        return _write_stage(stage)
    if not model:
        example = quote(next(iter(list_models(Path())), "model.onnx"))
        raise UsageError("MODEL is missing", hint=f"orun init {example}; a custom stage: orun init --stage ops.py")
    if model.lower().endswith(PIPELINES):
        return write_workflow_alone(model, ci, dry_run=dry_run)
    file = Path(output) if output else choose_file(model)
    if not dry_run:
        require_free(file, f"orun {quote(file)}; or write another: the same command with -o FILE")
        look_at(file)
    if store:
        from orun.store.layout import require_known

        require_known(store)
    target = find_target(target_name)
    answers = Answers(goal, data, ci)
    check_goal(answers.goal, answers.data)
    if is_interactive(yes=yes or dry_run):
        facts, answers = ask(model, file.parent, inputs, answers, trust=trust)
    else:
        with options.activity_shown():
            facts = read_model(model, file.parent, inputs, trust=trust)
    if facts.warning:
        options.warn([facts.warning])
    with options.activity_shown():
        declared = declare_data(answers.data, file.parent, facts)
    request = Request(facts, target, declared, check_goal(answers.goal, answers.data))
    if dry_run:
        return _print(file, request)
    workflow = plan_workflow(answers.ci, file)
    created = _create(file, request, store, model)
    lines = _report(created)
    if workflow:
        lines += write_workflow(file, *workflow)
    options.show([*lines, _suggest_next_step(created)])
    return 0 if created.is_reached else 1  # as of a run with a failed gate


def _print(file: Path, request: Request) -> int:
    """Print the pipeline as far as it is known before anything is built."""
    from orun.scaffold.create import declare_examples
    from orun.scaffold.goal import build_gates
    from orun.scaffold.pipeline_text import format_pipeline

    options.show(format_pipeline(file, declare_examples(file, request), build_gates(request.goal)).splitlines())
    if request.facts.graph is None:
        click.echo("not built: init chooses its last stages by the graph of the converted model", err=True)
    return 0


def _write_stage(reference: str) -> int:
    from orun.scaffold.stage_text import format_stage

    name, _, function = reference.partition(":")
    path = Path(name if name.endswith(".py") else f"{name}.py")
    function = function or path.stem.replace("-", "_")
    if not function.isidentifier():
        raise UsageError(f"'{function}' cannot be the name of a function", hint=f"orun init --stage {name}:FUNCTION")
    typed = show_path(str(path))
    uses = f"{typed if typed.startswith(('/', './', '../')) else f'./{typed}'}:{function}"
    test = f"orun test {quote(uses)}"
    require_free(path, f"{test}; or write another: orun init --stage OTHER.py:{function}")
    write_file(path, format_stage(path.name, function))
    options.show([f"wrote {path}", f"next: {test}; then `uses: {uses}` in a pipeline file"])
    return 0


def _create(file: Path, request: Request, store: Path | None, model: str) -> Created:
    from orun.cli.signals import stop_signals
    from orun.core.activity import report_to
    from orun.core.events import Planning, RunFinished
    from orun.report.console import Console
    from orun.report.terminal import detect
    from orun.scaffold.create import create, require_supported

    require_supported(file, request)
    if request.goal:
        click.echo(f"{model}: searching for a model that reaches the goal; this takes some minutes", err=True)
    else:
        click.echo(f"{model}: building once, to measure what its gates can ask for", err=True)
    console = Console(sys.stderr, detect(sys.stderr))

    def show(event: Event) -> None:
        console(event)
        if isinstance(event, RunFinished):
            console.close()

    try:
        with stop_signals(), report_to(lambda activity: show(Planning(activity))):
            return create(file, request, store, write_file, show)
    finally:
        console.close()


def _report(created: Created) -> list[str]:
    """Return what the pipeline measured, and what was written."""
    from orun.scaffold.paths import locate_data
    from orun.scaffold.summary import (
        explain_agreement,
        explain_pixels,
        explain_unjudged,
        explain_worse,
        format_goal,
        format_measured,
        list_label_notes,
        list_skipped_notes,
        list_stage_notes,
    )

    file = created.file
    notes = (
        *list_stage_notes(created),
        explain_agreement(created),
        explain_worse(created),
        explain_pixels(created),
        *list_label_notes(created),
        *list_skipped_notes(created),
    )
    lines = [line for line in (format_measured(created), *notes) if line]
    lines += format_goal(created)
    lines += [f"left out {stage}: {why}" for stage, why in created.request.gaps.items()]
    lines.append(f"wrote {file}: {created.count_verdicts}")
    if note := explain_unjudged(created):
        lines.append(note)
    if created.has_made_up_data:
        lines.append(f"examples are made up: fill in {locate_data(file)}")
    return lines


def _suggest_next_step(created: Created) -> str:
    run = f"orun {quote(created.file)}{created.store_option}"
    if created.is_reached:
        return f"next: {run}"
    return f"next: loosen the goal in {created.file}, or give its stage tune more time; then: {run}"
