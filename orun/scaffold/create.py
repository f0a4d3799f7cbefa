"""Creation of a pipeline: written, built once without gates, and written again with measured thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from orun import api
from orun.core.run_record import RunResult, StageResult, Verdict
from orun.core.serialization import Record, replace
from orun.errors import StageFailed, UsageError
from orun.eventlog import Listener
from orun.fs.os_errors import quoted
from orun.report.figures import count
from orun.scaffold.data_text import FUNCTION, data_text
from orun.scaffold.goal import gates_of, objectives
from orun.scaffold.model_facts import read_model
from orun.scaffold.paths import data_path, pipeline_name
from orun.scaffold.pipeline_text import pipeline_text
from orun.scaffold.recipe import Gates, Request, conversion_name, stages_for, uses_examples
from orun.scaffold.thresholds import REDUCED, gates_for, too_inexact
from orun.stages.contract import MODEL

Write = Callable[[Path, str], None]


class Created(Record, frozen=True):
    """A written pipeline.

    Attributes:
        file: its path.
        request: its request, with facts of the converted model.
        gates: its gates.
        result: the run that measured their thresholds.
    """

    file: Path
    request: Request
    gates: Gates
    result: RunResult

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts on the conditions of the goal."""
        return self.result.verdicts if self.request.goal else ()

    @property
    def counts(self) -> str:
        """Content of the pipeline: `7 stages, 4 gates`."""
        stages = stages_for(self.request, self.gates)
        gates = sum(len(stage.gate) for stage in stages)
        return f"{count(len(stages), 'stage')}, {count(gates, 'gate')}"

    @property
    def has_made_up_data(self) -> bool:
        """Whether its examples are made up."""
        return uses_examples(stages_for(self.request, self.gates)) and (
            not self.request.data or self.request.data == f"{data_path(self.file).name}:{FUNCTION}"
        )


def text_of(file: Path, request: Request, gates: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """Return the text of a pipeline file."""
    return pipeline_text(str(file), pipeline_name(file), data_path(file).name, request, gates)


def with_examples(file: Path, request: Request) -> Request:
    """Return the request with made-up examples if the recipe needs examples and there are none."""
    if request.data or not (request.goal or request.facts.form == "sklearn"):
        return request
    return replace(request, data=f"{data_path(file).name}:{FUNCTION}")


def create(file: Path, request: Request, store: Path | None, write: Write, listener: Listener) -> Created:
    """Write a pipeline with gates whose thresholds are measured here.

    Args:
        file: the pipeline file, which does not exist yet.
        request: the model and its goal.
        store: the store's folder; the project's when None.
        write: writes a file.
        listener: receives the events of the runs.

    Raises:
        StageFailed: when the model cannot be converted or measured; the file is left to be edited.
        UsageError: when the request cannot be met; then no file is left.
    """
    request = with_examples(file, request)
    data = data_path(file)
    is_ours = not data.exists() and (not request.data or request.data == f"{data.name}:{FUNCTION}")
    try:
        if is_ours:
            write(data, data_text(file.name, request.facts))
        write(file, text_of(file, request, {}))
        request = _converted(file, request, store, listener)
        if is_ours:  # again, as the inputs are known now
            write(data, data_text(file.name, request.facts))
        if request.goal:
            request, result = _searched(file, request, store, write, listener)
        else:
            request, result = _measured(file, request, store, write, listener)
    except StageFailed:
        raise
    except BaseException:
        file.unlink(missing_ok=True)  # nothing was there before
        if is_ours:
            data.unlink(missing_ok=True)
        raise
    gates = gates_of(request.goal) or gates_for(result)
    write(file, text_of(file, request, gates))
    created = Created(file, request, gates, result)
    if is_ours and not created.has_made_up_data:
        data.unlink()  # no stage takes examples
    return created


def _converted(file: Path, request: Request, store: Path | None, listener: Listener) -> Request:
    """Convert the original to ONNX, and add the facts of its graph to the request."""
    name = conversion_name(request.facts)
    result = api.run(file, store=store, to=[name], on_event=listener)
    _require(file, request, result[name])
    facts = read_model(str(Path(result[name].out) / MODEL), file.parent)
    return replace(request, facts=replace(request.facts, graph=facts.graph))


def _searched(
    file: Path, request: Request, store: Path | None, write: Write, listener: Listener
) -> tuple[Request, RunResult]:
    """Search for the goal by each objective until one meets it.

    Returns:
        The request with the objective that fails the fewest gates, and its run.
    """
    attempts = []
    for objective in objectives(request.goal):
        attempt, _ = _measured(file, replace(request, objective=objective), store, write, listener)
        write(file, text_of(file, attempt, gates_of(request.goal)))
        result = api.run(file, store=store, on_event=listener)
        failed = sum(verdict.outcome != "passed" for verdict in result.verdicts)
        attempts.append((failed, attempt, result))
        if not failed:
            break
    _, attempt, result = min(attempts, key=lambda item: item[0])
    return attempt, result


def _measured(
    file: Path, request: Request, store: Path | None, write: Write, listener: Listener
) -> tuple[Request, RunResult]:
    """Build the pipeline, again without each optional stage that refuses the model.

    Returns:
        The request with the stages that were left out, and the run of the others.
    """
    while True:
        write(file, text_of(file, request, {}))
        result = api.run(file, store=store, on_event=listener)
        stages = {stage.name: stage for stage in stages_for(request, {})}
        failed = next((stage for stage in result.stages if stage.failure), None)
        if failed is None:
            _require_search(request, result)
            cosine = too_inexact(result)
            name = next((name for name in REDUCED if name in stages), None)
            if cosine is None or name is None:
                return request, result
            why = f"Its outputs differ too much from the original's: cosine {cosine:.2f}. `--goal` searches for a mix."
        else:
            name = failed.stage
            if not stages[name].optional:
                _require(file, request, failed)
            why = _reason(failed)
        request = replace(request, left_out={**request.left_out, name: why})


def _reason(stage: StageResult) -> str:
    """Return why a stage refused the model, for a comment."""
    assert stage.failure  # noqa: S101 - the caller has looked
    lines = [stage.failure.what, *stage.failure.why.splitlines()[:1]]
    return f"It refused this model: {'; '.join(line.rstrip('.') for line in lines if line)}"


def _require(file: Path, request: Request, stage: StageResult) -> None:
    """Raise the failure of a stage that the pipeline needs."""
    failure = stage.failure
    if failure is None:
        return
    hints = [failure.hint] if failure.hint else []
    if request.facts.form == "sklearn" and request.data == f"{data_path(file).name}:{FUNCTION}":
        hints.append(f"The examples were made up: write your own into {data_path(file)}")
    hints.append(f"Edit {quoted(file)}, then: orun {quoted(file)}")
    message = f"stage {stage.stage}: {failure.what}"
    raise StageFailed(stage.stage, message, why=failure.why, hint="\n".join(hints), log=failure.log)


def _require_search(request: Request, result: RunResult) -> None:
    """Refuse a goal whose search was skipped because its provider is missing."""
    if any(stage.stage == "tune" and stage.outcome == "skipped" for stage in result.stages):
        target = request.target.name
        raise UsageError(
            f"the goal cannot be searched for: this machine has no {target}",
            why="the search times candidates on the target",
            hint="run orun init on a machine that has it, or leave out --target",
        )
