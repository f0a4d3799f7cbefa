"""orun init: a pipeline for a model that exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.verb import Verb
from orun.errors import UsageError

if TYPE_CHECKING:
    from orun.scaffold.model_facts import ModelFacts

EXAMPLES = (
    ("orun init model.onnx", "read the model, build it once, write model.yaml with gates"),
    ("orun init ./my-bert -o pipelines/bert.yaml", "a folder of transformers"),
    ("orun init net.py:load --input 'image=float32[batch,3,32,32]'", "a function that returns a PyTorch module"),
    ("orun init model.onnx --dry-run", "print the file; build and write nothing"),
)
DATA = '''"""Examples for {name}: made up. Return your own, with labels where there are some."""

import numpy as np
import orun


def examples() -> orun.Dataset:
    rows = np.random.default_rng(0).normal(size=(200, {features})).astype(np.float32)
    return orun.Dataset({{"X": rows}})
'''


@click.command("init", cls=Verb, examples=EXAMPLES)
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", help="The pipeline file; named after the model when left out.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[AXES]",
    help="What a PyTorch or TensorFlow model takes, where its file does not say. Repeatable.",
)
@click.option("--trust", is_flag=True, help="Unpickle a scikit-learn file, which runs the code that is in it.")
@click.option("--dry-run", is_flag=True, help="Print the file without gates; build and write nothing.")
@options.store_option
def command(
    model: str, output: str | None, inputs: Sequence[str], trust: bool, dry_run: bool, store: Path | None
) -> int:
    """Write a pipeline for a model.

    MODEL is an .onnx file, a folder of transformers, a .pt2 or .pt file, a SavedModel, a Keras or TFLite file, a joblib
    file of a scikit-learn estimator, or file.py:function. The pipeline is built once, so that its gates have thresholds
    measured on this machine. A stage that refuses the model is left out, and the file says why.
    """
    from orun.scaffold.model_facts import read_model
    from orun.store.layout import require_known

    file = Path(output) if output else Path(_name(model) + ".yaml")
    if not dry_run and (file.exists() or file.is_symlink()):
        raise UsageError(f"{file} is there already", hint=f"orun {file}; or write another: orun init {model} -o FILE")
    if store:
        require_known(store)
    facts = read_model(model, file.parent, inputs, trust=trust)
    data = f"{file.stem}_data.py:examples" if facts.form == "sklearn" else ""
    if dry_run:
        options.show(_text(file, facts, {}, data, {}).splitlines())
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    if data and not (code := file.with_name(f"{file.stem}_data.py")).exists():
        _write(code, DATA.format(name=file.name, features=facts.features))
    click.echo(f"{model}: building once to measure what its gates can ask for", err=True)
    try:
        left_out, gates = _measured(file, facts, data, store)
    except BaseException:
        file.unlink(missing_ok=True)  # nothing was there before
        raise
    _write(file, _text(file, facts, left_out, data, gates))
    options.show([f"wrote {file}: {_summary(facts, gates)}", f"next: orun {file}"])
    return 0


def _write(path: Path, text: str) -> None:
    from orun.cli.outputs import look_at, write

    write(look_at(path), text)


def _name(model: str) -> str:
    """The name of the pipeline: `model` of model.onnx, `load` of net.py:load, `my-bert` of ./my-bert/."""
    last = model.rpartition(":")[2] if ".py:" in model else Path(model).absolute().stem
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in last)


def _text(
    file: Path,
    facts: ModelFacts,
    left_out: Mapping[str, str],
    data: str,
    gates: Mapping[str, Mapping[str, Mapping[str, str]]],
) -> str:
    from orun.core.serialization import replace
    from orun.scaffold.pipeline_text import pipeline_text
    from orun.scaffold.recipe import stages_for

    stages = [replace(stage, gate=gates.get(stage.name, {})) for stage in stages_for(facts, left_out, data)]
    return pipeline_text(file.stem, str(file), stages, left_out)


def _measured(
    file: Path, facts: ModelFacts, data: str, store: Path | None
) -> tuple[dict[str, str], Mapping[str, Mapping[str, Mapping[str, str]]]]:
    """Build the pipeline, again without each optional stage that refuses the model.

    Returns:
        Which stages refused it and why, and the gates of the others.
    """
    import orun
    from orun.core.events import Event, StageStarted
    from orun.scaffold.recipe import stages_for
    from orun.scaffold.thresholds import gates_for

    def show(event: Event) -> None:
        if isinstance(event, StageStarted):
            click.echo(f"  {event.stage}", err=True)

    left_out: dict[str, str] = {}
    while True:
        _write(file, _text(file, facts, left_out, data, {}))
        result = orun.run(file, store=store, on_event=show)
        failures = {stage.stage: stage.failure for stage in result.stages if stage.failure}
        if not failures:
            return left_out, gates_for(result)
        name, failure = next(iter(failures.items()))
        if not any(stage.name == name and stage.optional for stage in stages_for(facts, left_out, data)):
            raise UsageError(f"stage {name}: {failure.what}", why=failure.why, hint=failure.hint)
        left_out[name] = failure.what


def _summary(facts: ModelFacts, gates: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    from orun.report.figures import count

    return f"{count(sum(map(len, gates.values())), 'gate')}, a {facts.form} model"
