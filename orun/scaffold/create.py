"""Creation of a pipeline: written, built once without gates, and written again with measured thresholds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from orun import api
from orun.core.run_record import RunResult
from orun.core.serialization import Record, replace
from orun.core.verdict import Verdict
from orun.environment import distributions
from orun.environment.providers import explain
from orun.errors import MissingPackages, StageFailed, UsageError
from orun.eventlog import Listener
from orun.fs.os_errors import quote
from orun.report.run_options import find_store
from orun.scaffold.builder import Builder, count_missed
from orun.scaffold.data_text import FUNCTION, format_data
from orun.scaffold.goal import build_gates
from orun.scaffold.init_command import format_init_command
from orun.scaffold.inspection_process import declare_data, read_label_kind, read_model, search_labels
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.paths import locate_data
from orun.scaffold.recipe import Gates, list_stages, name_conversion, needs_examples
from orun.scaffold.request import Request
from orun.scaffold.thresholds import choose_gates, find_drawback, find_label_doubt
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
        return count_missed(self.request.goal, self.verdicts) == 0

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
    builder = Builder(file, store, write, listener)
    request = declare_examples(file, request)
    data = locate_data(file)
    is_ours = not data.exists() and not request.has_own_data
    if is_ours:
        write(data, format_data(file.name, request.facts))
        _require_examples(file, request)
    try:
        builder.write_pipeline(request)
        request = _convert_original(builder, replace(request, runs_here=_runs_here(file, request)))
        request = _add_label_kind(file, _assume_labels(file, _declare_suitable_data(file, request)))
        if is_ours:  # again, as the inputs are known now
            write(data, format_data(file.name, request.facts))
        if request.goal:
            request, result, verdicts = builder.search_goal(request)
        else:
            request, result = builder.build_and_measure(request)
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
    builder.write_pipeline(request, gates)
    created = Created(file, request, gates, result, verdicts)
    if is_ours and not created.has_made_up_data:
        data.unlink()  # no stage takes examples
    return created


def _runs_here(file: Path, request: Request) -> bool:
    """Return whether this machine has the target, if it is not the CPU."""
    target = api.load(file).stage("latency").target
    return target is not None and not request.target.is_cpu and not explain(target)


def _convert_original(builder: Builder, request: Request) -> Request:
    """Convert the original to ONNX, and add the facts of its graph to the request.

    If too few of its answers agree, and the refusal asks for the share that does, the file gets that, once.
    """
    name = name_conversion(request.facts)
    result = builder.run([name])
    failure = result[name].failure
    if failure and (agreement := failure.settings.get("min_agreement")):
        request = replace(request, agreement=agreement)
        builder.write_pipeline(request)
        result = builder.run([name])
    builder.require(result[name])
    facts = read_model(str(Path(result[name].out) / MODEL), builder.file.parent)
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
    path, scores = os.path.normpath(file.parent / source), graph.scores if graph else 0
    return replace(request, labels=read_label_kind(path, column, inputs, scores))


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
