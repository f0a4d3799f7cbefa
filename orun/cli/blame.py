"""orun blame: which stage and which nodes are behind a failed gate."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.complete import complete_stage
from orun.cli.verb import Verb
from orun.core.open_gates import list_failed_gates
from orun.errors import OrunError, UsageError
from orun.eventlog import ignore
from orun.fs.os_errors import quote
from orun.pipeline.model import iter_gates
from orun.report.run_options import format_run_options
from orun.store.layout import store_option
from orun.text.suggestions import format_choices, format_settings, list_nearest, show_path

if TYPE_CHECKING:
    from orun.blame.blame import BlameRequest
    from orun.blame.diagnosis import Diagnosis
    from orun.core.run_record import RunResult
    from orun.pipeline.model import Pipeline

AUTOMATIC_SECONDS = 60.0  # that a run spends on all of its failed gates
AT_LEAST_MINUTES, LONGER = 10, 2  # of the time that is advised where there was too little, and how many times more
EXAMPLES = (
    ("orun blame pipelines/bert.yaml", "every gate that failed"),
    ("orun blame pipelines/bert.yaml accuracy", "the gates of one stage, failed or not"),
    ("orun blame pipelines/bert.yaml accuracy.cosine.min --time 20min", "one gate, with more time"),
)


@click.command("blame", cls=Verb, examples=EXAMPLES)
@options.file_argument
@click.argument("gate", required=False, metavar="[GATE]", shell_complete=complete_stage)
@click.option("--time", default="10min", metavar="DURATION", help="When to stop, for all gates together; 10min.")
@options.set_option
@options.store_option
@options.json_option
def command(file: str, gate: str | None, time: str, overrides: Sequence[str], store: Path | None, as_json: bool) -> int:
    """Find out why a gate of FILE fails, down to the stage and the nodes.

    For accuracy, the metric is measured at every artifact upstream. In the stage that lost it, nodes are put back into
    float one at a time. For latency, the artifacts are profiled side by side. Then the variant without the worst nodes
    is built and measured, which confirms the answer. All of that is kept in the store.

    GATE is a stage or STAGE.METRIC, whether the gate fails or not. It is measured behind a failed gate, too.
    Stages that publish a release are not run.
    """
    from orun.blame.blame import choose_stages, find_requests
    from orun.cli.signals import stop_signals

    values, seconds = options.parse_overrides(overrides), options.parse_seconds("--time", time)
    if not seconds:
        raise UsageError("--time leaves no time to find anything out", hint="orun blame FILE --time 10min")
    pipeline = orun.load(file, set=values)
    to = choose_stages(pipeline, None if gate is None else _find_stage(pipeline, gate))
    say = ignore if as_json else options.say_step
    with stop_signals():
        # A run with --keep-going may have judged the named gate behind a failed one.
        past_gates = gate is not None
        result = orun.run(pipeline, to=to, keep_going=True, past_gates=past_gates, store=store, on_event=say)
        judged = find_requests(pipeline, result, all_gates=gate is not None)
        requests = [item for item in judged if gate in (None, item.stage.id, f"{item.stage.id}.{item.gate.metric}")]
        diagnoses = _diagnose(requests, seconds, store, say)
    if not diagnoses and (broken := next((stage for stage in result.stages if stage.failure), None)) and broken.failure:
        again = f"orun {quote(show_path(file))}{format_run_options(result)}"
        raise UsageError(broken.failure.problem, why=broken.failure.why, hint=again)
    if as_json:
        options.show_json({"blame": diagnoses})
    elif not diagnoses:
        options.show([_explain_nothing(result, gate)])
    else:
        show(diagnoses)
    return 0


def look_into(file: str, choices: Mapping[str, Any], result: RunResult, *, quiet: bool) -> tuple[Diagnosis, ...]:
    """Search for the culprits of the gates that failed in a run, for a minute at most; keep them in the run's folder.

    The run has ended. Ctrl-C, SIGTERM or SIGHUP end the search alone: verdict, reports and exit code stand.
    """
    from orun.cli.signals import stop_signals

    try:
        with stop_signals():
            return _diagnose_and_keep(orun.load(file, set=choices["set"]), choices.get("store"), result, quiet=quiet)
    except KeyboardInterrupt:
        again = _format_command(Path(file).absolute(), choices["set"], choices.get("store"))
        click.echo(f"the search was interrupted; to go on: {again}", err=True)
        return ()
    except OrunError as error:  # the verdict stands whether its cause can be found or not
        click.echo(f"why cannot be told: {error}", err=True)
        return ()


def _diagnose_and_keep(
    pipeline: Pipeline, store: Path | None, result: RunResult, *, quiet: bool
) -> tuple[Diagnosis, ...]:
    from orun.blame.blame import find_requests
    from orun.fs.os_errors import convert_os_errors
    from orun.fs.output_file import OutputFile
    from orun.report.document import dumps

    requests = list(find_requests(pipeline, result))
    if not requests:
        return ()
    if not quiet:
        options.show(["", f"why, for {AUTOMATIC_SECONDS:.0f} s at most (--no-blame leaves it out):"])
    path = result.folder / "blame.json"
    diagnoses = _diagnose(requests, AUTOMATIC_SECONDS, store, ignore if quiet else options.say_step)
    with convert_os_errors("keep what was found", path), OutputFile(path) as output:
        output.write(f"{dumps({'blame': diagnoses})}\n".encode())
    return diagnoses


def show(diagnoses: Sequence[Diagnosis], *, sentences: bool = False) -> None:
    """Print what was found; `sentences` alone for those who want it short."""
    from orun.report.blame import format_diagnosis, join_diagnoses
    from orun.report.terminal import detect

    terminal = detect(sys.stdout)
    for diagnosis in join_diagnoses(diagnoses):
        options.show(
            list(filter(None, (diagnosis.sentence, diagnosis.stopped)))
            if sentences
            else ["", *format_diagnosis(diagnosis, terminal)]
        )


def _diagnose(requests: Sequence[BlameRequest], seconds: float, store: Path | None, say: Any) -> tuple[Diagnosis, ...]:
    """Look into each gate in turn, for an equal part of the time that is left to all of them."""
    from orun.blame.blame import blame

    diagnoses: list[Diagnosis] = []
    for number, request in enumerate(requests):
        left = max(seconds - sum(done.seconds for done in diagnoses), 0.0) / (len(requests) - number)
        diagnoses.append(add_advice(blame(request, left, store, say), request, seconds, store))
    return tuple(diagnoses)


def add_advice(diagnosis: Diagnosis, request: BlameRequest, seconds: float, store: Path | None) -> Diagnosis:
    """Say how to go on where the time was too short."""
    from dataclasses import replace

    from orun.blame.diagnosis import OUT_OF_TIME

    if diagnosis.stopped != OUT_OF_TIME:
        return diagnosis
    command = _format_command(request.pipeline.file, request.pipeline.overrides, store, f" {quote(diagnosis.stage)}")
    minutes = max(math.ceil(LONGER * seconds / 60), AT_LEAST_MINUTES)
    return replace(diagnosis, stopped=f"{diagnosis.stopped}; to go on: {command} --time {minutes}min")


def _format_command(file: Path, overrides: Mapping[str, str], store: Path | None, stage: str = "") -> str:
    """Return the command that looks into the gates of a file, or of one of its stages."""
    options = format_settings(overrides) + (store_option(store, file.parent) if store else "")
    return f"orun blame {quote(show_path(str(file)))}{stage}{options}"


def _find_stage(pipeline: Pipeline, gate: str) -> str:
    """Return the stage that is meant by its id, or by its id and a metric."""
    known = {stage.id: stage.id for stage in pipeline.stages}
    known |= {
        f"{stage.id}.{condition.metric}": stage.id for stage in pipeline.stages for condition in iter_gates(stage.gates)
    }
    if gate not in known:
        gated = [stage.id for stage in pipeline.stages if stage.gates]
        close = list_nearest(gate, known)
        raise UsageError(
            f"there is no stage or gate {gate!r} in {pipeline.file.name}",
            why=f"did you mean {format_choices(close)}?"
            if close
            else f"stages with gates are {', '.join(gated) or 'none'}",
            hint=f"orun graph {quote(show_path(str(pipeline.file)))}",
        )
    return known[gate]


def _explain_nothing(result: RunResult, gate: str | None) -> str:
    if gate is not None:
        return f"nothing to look into: no gate of {gate} judged a model that other stages made"
    failing = [verdict.title for verdict in list_failed_gates(result.verdicts)]
    if failing:
        return f"nothing to look into, as no model that other stages made was judged: {', '.join(failing)}"
    return "no gate failed"
