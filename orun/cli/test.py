"""orun test: a custom stage, tried on a tiny model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.verb import Verb
from orun.errors import StageFailed

if TYPE_CHECKING:
    from orun.scaffold.stage_trial import Trial

DIFFERS = 1  # exit code of a stage that yields something else when it runs again
EXAMPLES = (
    ("orun test ./ops.py:count", "run it on a tiny model, twice, and compare"),
    ("orun test ./ops.py:count --input model=bert.onnx --set smallest=10", "on a model of yours"),
)


@click.command("test", cls=Verb, examples=EXAMPLES)
@click.argument("stage")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PORT=PATH",
    help="A file or folder for an input; onnx inputs get a tiny model when left out. Repeatable.",
)
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of a parameter. Repeatable.")
@options.json_option
def command(stage: str, inputs: Sequence[str], values: Sequence[str], as_json: bool) -> int:
    """Run a custom stage on a tiny model, build it again in another process, and compare.

    STAGE is ./file.py:function. The check covers its declaration, its output, its metrics, and whether equal inputs
    yield equal bytes. Nothing is kept.

    \b
    Exit codes: 0 the stage keeps what it declares, 1 the second build differs,
    2 the declaration or the command line is wrong, 3 the stage failed, as when a
    declared metric is missing.
    """  # noqa: D301 -- click's mark for text that keeps its lines
    from orun.cli.signals import stop_signals
    from orun.report.console import Console
    from orun.report.terminal import detect
    from orun.scaffold.stage_trial import TINY, find_stage, try_stage

    see = "orun test --help"
    paths = options.parse_pairs("--input", "PORT=PATH", inputs, see)
    parameters = options.parse_pairs("--set", "NAME=VALUE", values, see)
    kind = find_stage(stage)
    if not as_json and any(port.accepts == ("onnx",) and name not in paths for name, port in kind.spec.inputs.items()):
        click.echo(f"{stage} on {TINY}", err=True)
    console = Console(sys.stderr, detect(sys.stderr), "quiet" if as_json else "normal")
    try:
        with stop_signals():
            trial = try_stage(stage, paths, parameters, console)
    finally:
        console.close()
    if as_json:
        options.show_json({"stage": stage, "good": trial.is_good, "result": trial.result, "rebuilt": trial.rebuilt})
    elif trial.result.failure is None:
        options.show(_format_trial(stage, trial))
    if failure := trial.result.failure:
        if as_json:
            return StageFailed.exit_code
        why = "\n".join(filter(None, (failure.why, trial.log and f"the end of its log:\n{trial.log}")))
        raise StageFailed(trial.result.stage, f"{stage}: {failure.problem}", why=why, hint=trial.hint)
    return 0 if trial.is_good else DIFFERS


def _format_trial(stage: str, trial: Trial) -> list[str]:
    from orun.cli.verify import format_comparison
    from orun.text.units import show

    lines = [f"metric {name}: {show(metric.value, metric.unit)}" for name, metric in trial.result.metrics.items()]
    assert trial.rebuilt  # noqa: S101 - it did not fail
    lines += format_comparison(trial.rebuilt, ("first", "second"))
    if trial.is_good:
        return [*lines, f"{stage} works"]
    advice = "seed random choices with context.seed, sort what has no order, write no times or paths"
    return [*lines, f"{stage} is not deterministic: {advice}; or declare deterministic=False"]
