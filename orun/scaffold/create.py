"""Creation of a pipeline: written, built once without gates, and written again with measured thresholds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from orun import api
from orun.core.run_record import BY_INIT, RunResult, StageResult
from orun.core.serialization import Record, replace
from orun.core.verdict import Verdict
from orun.environment import distributions
from orun.environment.providers import explain
from orun.errors import MissingPackages, StageFailed, UsageError
from orun.eventlog import Listener
from orun.fs.os_errors import quote
from orun.report.run_options import find_store
from orun.scaffold.data_text import FUNCTION, format_data
from orun.scaffold.goal import Condition, build_gates, list_objectives
from orun.scaffold.init_command import format_init_command
from orun.scaffold.inspection_process import declare_data, read_label_kind, read_model, search_labels
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.left_out import explain_failure, is_in_users_code
from orun.scaffold.paths import derive_name, locate_data
from orun.scaffold.pipeline_text import format_pipeline
from orun.scaffold.recipe import Gates, list_stages, name_conversion, needs_examples
from orun.scaffold.request import Request
from orun.scaffold.thresholds import REDUCED, choose_gates, find_drawback, find_label_doubt, measure_likeness
from orun.stages.contract import MODEL
from orun.store.layout import store_option
from orun.text.counts import count

SEARCHER = "optuna"  # package by which `quantize/tune` searches
Write = Callable[[Path, str], None]


class Created(Record, frozen=True):
    """A written pipeline."""

    file: Path
    request: Request  # with facts of the converted model
    gates: Gates
    result: RunResult  # of the run that measured it, without gates
    verdicts: tuple[Verdict, ...] = ()  # on the conditions of the goal

    @property
    def is_reached(self) -> bool:
        """Whether every condition of the goal is met."""
        return _count_missed(self.request.goal, self.verdicts) == 0

    @property
    def store_option(self) -> str:
        """Option that names the store of its run in commands; empty for the default one."""
        return store_option(find_store(self.result), self.file.parent)

    @property
    def count_verdicts(self) -> str:
        """Content of the pipeline: `7 stages, 4 gates`."""
        stages = list_stages(self.request, self.gates)
        gates = sum(len(stage.gate) for stage in stages)
        return f"{count(len(stages), 'stage')}, {count(gates, 'gate')}"

    @property
    def has_made_up_data(self) -> bool:
        """Whether its examples are made up."""
        return needs_examples(list_stages(self.request, self.gates)) and not self.request.has_own_data


def format_text(file: Path, request: Request, gates: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """Return the text of a pipeline file."""
    return format_pipeline(str(file), derive_name(file), locate_data(file).name, request, gates)


def declare_examples(file: Path, request: Request) -> Request:
    """Return the request with made-up examples if the recipe needs examples and there are none."""
    if request.data or not (request.goal or request.facts.form == "sklearn"):
        return request
    return replace(request, data=f"{locate_data(file).name}:{FUNCTION}", is_made_up=True)


def create(file: Path, request: Request, store: Path | None, write: Write, listener: Listener) -> Created:
    """Write a pipeline file that is not there yet, with gates whose thresholds are measured here.

    The store is the project's when None; the listener receives the events of the runs.

    Raises:
        StageFailed: when the model cannot be converted or measured; the file is left to be edited.
        UsageError: when the request cannot be met; then no file is left.
    """
    request = declare_examples(file, request)
    data = locate_data(file)
    is_ours = not data.exists() and not request.has_own_data
    if is_ours:
        write(data, format_data(file.name, request.facts))
        _require_examples(file, request)
    try:
        write(file, format_text(file, request, {}))
        request = _convert_original(file, replace(request, runs_here=_runs_here(file, request)), store, write, listener)
        request = _add_label_kind(file, _assume_labels(file, _declare_suitable_data(file, request)))
        if is_ours:  # again, as the inputs are known now
            write(data, format_data(file.name, request.facts))
        if request.goal:
            request, result, verdicts = _search_goal(file, request, store, write, listener)
        else:
            request, result = _build_and_measure(file, request, store, write, listener)
            verdicts = ()
    except StageFailed:
        raise
    except BaseException:
        file.unlink(missing_ok=True)  # nothing was there before
        if is_ours:
            data.unlink(missing_ok=True)
        raise
    doubt = find_label_doubt(request, result)
    request = replace(request, drawback=find_drawback(request, result), label_doubt=doubt)
    gates = build_gates(request.goal) or choose_gates(result, judges_labels=not doubt)
    write(file, format_text(file, request, gates))
    created = Created(file, request, gates, result, verdicts)
    if is_ours and not created.has_made_up_data:
        data.unlink()  # no stage takes examples
    return created


def _runs_here(file: Path, request: Request) -> bool:
    """Return whether this machine has the target, if it is not the CPU."""
    target = api.load(file).stage("latency").target
    return target is not None and not request.target.is_cpu and not explain(target)


def _run(file: Path, store: Path | None, listener: Listener, to: Sequence[str] = ()) -> RunResult:
    pipeline = replace(api.load(file), run_suffix=BY_INIT)
    return api.run(pipeline, store=store, to=to, on_event=listener)


def _convert_original(file: Path, request: Request, store: Path | None, write: Write, listener: Listener) -> Request:
    """Convert the original to ONNX, and add the facts of its graph to the request.

    If too few of its answers agree, and the refusal asks for the share that does, the file gets that, once.
    """
    name = name_conversion(request.facts)
    result = _run(file, store, listener, [name])
    failure = result[name].failure
    if failure and (agreement := failure.settings.get("min_agreement")):
        request = replace(request, agreement=agreement)
        write(file, format_text(file, request, {}))
        result = _run(file, store, listener, [name])
    _require(file, result[name])
    facts = read_model(str(Path(result[name].out) / MODEL), file.parent)
    return replace(request, facts=replace(request.facts, graph=facts.graph))


def _declare_suitable_data(file: Path, request: Request) -> Request:
    """Declare the user's data again if the inputs of the model were not known before it was converted."""
    facts = request.facts
    if facts.inputs or facts.form != "tensorflow" or not request.has_own_data:
        return request
    return replace(request, data=declare_data(os.path.normpath(file.parent / request.data_source), file.parent, facts))


def _assume_labels(file: Path, request: Request) -> Request:
    """Say which column is assumed to hold the labels by its name; without one declare what may: `search_labels`."""
    source = request.data_source
    if isinstance(request.data, Mapping) and (column := request.data.get("labels")):
        assumption = f"`labels: {column}` is assumed: columns of this name usually hold labels"
        return replace(request, label_facts=LabelFacts(assumption=assumption))
    if request.goal or request.has_labels or not request.has_own_data or ".py:" in source:
        return request
    path = os.path.normpath(file.parent / source)
    labels = search_labels(path, file.parent, request.facts, request.data)
    declared = {"path": source} if isinstance(request.data, str) else request.data
    data = {**declared, **labels.declared} if labels.declared else request.data
    return replace(request, data=data, label_facts=labels)


def _add_label_kind(file: Path, request: Request) -> Request:
    """Find out what the labels of the user's data are, if a function returns them or a column holds them.

    A function that lacks an input of the model is refused.
    """
    declared = request.data if isinstance(request.data, Mapping) else {}
    column, source = str(declared.get("labels", "")), request.data_source
    has_label_column = column and "classes" not in declared and not request.goal
    if not request.has_own_data or not (has_label_column or ".py:" in source):
        return request
    graph = request.facts.graph
    inputs = [value.name for value in graph.inputs] if graph else []
    return replace(request, labels=read_label_kind(os.path.normpath(file.parent / source), column, inputs))


def _search_goal(
    file: Path, request: Request, store: Path | None, write: Write, listener: Listener
) -> tuple[Request, RunResult, tuple[Verdict, ...]]:
    """Search for the goal by each objective until one meets it.

    Returns:
        The request with the objective that misses the fewest conditions, the run that measured its model, and the
        verdicts on it.
    """
    attempts = []
    for objective in list_objectives(request.goal):
        attempt, measured = _build_and_measure(file, replace(request, objective=objective), store, write, listener)
        write(file, format_text(file, attempt, build_gates(request.goal)))
        verdicts = _run(file, store, listener).verdicts
        attempts.append((attempt, measured, verdicts))
        if not _count_missed(request.goal, verdicts):
            break
    return min(attempts, key=lambda attempt: _count_missed(request.goal, attempt[2]))


def _count_missed(goal: tuple[Condition, ...], verdicts: tuple[Verdict, ...]) -> int:
    """Return how many conditions of a goal no verdict calls passed."""
    return len(goal) - sum(verdict.outcome == "passed" for verdict in verdicts)


def _build_and_measure(
    file: Path, request: Request, store: Path | None, write: Write, listener: Listener
) -> tuple[Request, RunResult]:
    """Build the pipeline, again without each optional stage that refuses the model.

    Returns:
        The request with the stages that were left out, and the run of the others.
    """
    while True:
        write(file, format_text(file, request, {}))
        result = _run(file, store, listener)
        stages = {stage.name: stage for stage in list_stages(request, {})}
        failed = next((stage for stage in result.stages if stage.failure), None)
        reduced = next((name for name in REDUCED if name in stages), "")
        if failed is None:
            _require_search(request, result)
            metric, value, least = measure_likeness(result) or ("", 0.0, 0.0)
            if value >= least or not reduced:
                return request, result
            why = f"its outputs differ too much from the original's: {metric} {value:.2f}"
            left_out = {reduced: f"{why}. Next: `--goal` searches for a mix"}
        elif request.has_own_data and is_in_users_code(failed):
            raise _build_data_error(request, failed)
        elif not stages[failed.stage].optional:
            _require(file, failed)
        elif failed.stage == "accuracy" and (batched := _list_batched(request)):
            request = replace(request, outputs=batched)
            continue
        elif failed.stage == "accuracy" and request.label_metric:
            request = replace(request, label_refusal=explain_failure(failed))
            continue
        else:
            left_out = {failed.stage: explain_failure(failed)}
            if failed.stage == "accuracy" and reduced:
                left_out[reduced] = (
                    f"nothing here can compare its outputs with the original's{_suggest_next_examples(request)}"
                )
        request = replace(request, left_out={**request.left_out, **left_out})


def _build_data_error(request: Request, stage: StageResult) -> UsageError:
    """Return the error of a function for examples that failed in a stage: the model is not to blame."""
    assert stage.failure  # noqa: S101 - the caller has looked
    failure = stage.failure
    why = "\n".join(filter(None, [failure.problem, failure.why]))
    return UsageError(f"{request.data_source} failed in the stage {stage.stage}", why=why, hint=failure.advice)


def _suggest_next_examples(request: Request) -> str:
    """Return which examples may compare the outputs of two models, after others did not."""
    if not request.has_own_data:
        return ". Next: name examples of your own: --data data.py:examples"
    return f": the examples of {request.data_source} do not serve, for the reason of accuracy. Next: change them"


def _list_batched(request: Request) -> tuple[str, ...]:
    """Return the outputs with a batch axis if some have none and none was left out yet."""
    graph = request.facts.graph
    return graph.batched if graph and not request.outputs and graph.batched != graph.outputs else ()


def _require(file: Path, stage: StageResult) -> None:
    """Raise the failure of a stage that the pipeline needs, if it failed."""
    failure = stage.failure
    if failure is None:
        return
    hints = [failure.hint] if failure.hint else []
    hints.append(f"Edit {quote(file)}, then: orun {quote(file)}")
    message = f"stage {stage.stage}: {failure.problem}"
    raise StageFailed(stage.stage, message, why=failure.why, hint="\n".join(hints), log=failure.log)


def require_supported(file: Path, request: Request) -> None:
    """Refuse what could not be built here: a search without its package, operators that ONNX Runtime does not have.

    Raises:
        MissingPackages: when the package that searches is not installed.
        UsageError: when the model has such operators.
    """
    if request.goal and not distributions.find(SEARCHER):
        purpose = "the search for a model that reaches a goal"
        raise MissingPackages(f"{purpose} needs {SEARCHER}, which is not installed", [SEARCHER])
    facts = request.facts
    if facts.graph is None or not facts.graph.unknown:
        return
    source, again = os.path.normpath(file.parent / facts.source), format_init_command(file, request)
    if undefined := [name for name in facts.graph.unknown if ":" not in name]:
        raise UsageError(
            f"{source} has operators that ONNX does not define: {', '.join(undefined)}",
            why="they have no domain, as ONNX's own operators",
            hint=f"export the model with the domain of the library that defines them, then: {again}",
        )
    raise UsageError(
        f"{source} has operators that ONNX Runtime does not have: {', '.join(facts.graph.unknown)}",
        why="it runs only with the library that defines them",
        hint=f"{again} --dry-run > {quote(file)}; name the library there, in the `session` of the target: "
        f"custom_op_libraries: [FILE]; then: orun {quote(file)}",
    )


def _require_examples(file: Path, request: Request) -> None:
    """Refuse made-up examples that a scikit-learn estimator cannot take."""
    facts, data = request.facts, locate_data(file)
    if not facts.refusal:
        return
    guesses = ", ".join(repr(column.name) for column in facts.columns if column.doubt)
    again = format_init_command(file, replace(request, data=f"{data.name}:{FUNCTION}", is_made_up=False))
    raise UsageError(
        f"{facts.source} cannot take the examples that orun made up from what it has learned",
        why=f"{facts.refusal}\nnothing in it describes {guesses}" if guesses else facts.refusal,
        hint=f"write typical examples into {data}, where the made-up ones are, then: {again}",
    )


def _require_search(request: Request, result: RunResult) -> None:
    """Refuse a goal whose search was skipped because its provider is missing."""
    if any(stage.stage == "tune" and stage.outcome == "skipped" for stage in result.stages):
        target = request.target.name
        raise UsageError(
            f"the goal cannot be searched for: this machine has no {target}",
            why="the search times candidates on the target",
            hint="run orun init on a machine that has it, or leave out --target",
        )
