"""Text of a pipeline file, with comments that teach."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orun.fs.os_errors import quote
from orun.scaffold.data_text import FUNCTION
from orun.scaffold.model_facts import ModelFacts
from orun.scaffold.paths import derive_name, locate_data
from orun.scaffold.recipe import Gates, Number, StageText, list_stages, needs_examples
from orun.scaffold.request import Request
from orun.scaffold.targets import TargetText

PLAIN = re.compile(r"[^\W\d][\w./-]*(:\w+)?|\./[\w./-]+(:\w+)?|\.\./[\w./-]+(:\w+)?")
RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~"})
WIDTH = 100


def format_pipeline(file: Path, request: Request, gates: Gates) -> str:
    """Return the text of a pipeline file with these gates, whose examples the Python file beside it yields."""
    stages, typed = list_stages(request, gates), quote(file)
    variables = ["vars:", *_iter_data(request, locate_data(file).name), ""] if needs_examples(stages) else []
    lines = [
        *_iter_comment(f"A release of {request.facts.source}, written by `orun init`. Edit it freely.", ""),
        *_iter_facts(request.facts),
        "#",
        f"#   orun {typed}                  build what changed, judge the gates",
        f"#   orun plan {typed}             what would run, and why",
        f"#   orun baseline accept {typed}  accept this release: later ones are compared with it",
        f"name: {derive_name(file)}",
        "",
        *variables,
        "targets:",
        *_iter_target(request.target),
        "",
        "stages:",
    ]
    for stage in stages:
        lines += [*_iter_stage(stage), ""]
    for name_left_out, why in request.gaps.items():
        lines += [*_iter_comment(f"Left out {name_left_out}: {why}.", "  "), ""]
    return "\n".join(lines[:-1]) + "\n"


def _iter_facts(facts: ModelFacts) -> Iterator[str]:
    yield f"# {facts.title}"
    graph = facts.graph
    if inputs := facts.inputs or (graph.inputs if graph else ()):
        yield from _iter_comment(f"inputs: {'; '.join(map(str, inputs))}", "")


def _iter_data(request: Request, data_file: str) -> Iterator[str]:
    """Yield the variable that names the examples, below a comment that says whether they are made up."""
    made_up = f"{data_file}:{FUNCTION}"
    if not request.data:
        yield from _iter_comment(f"Examples: MADE UP from the model's inputs. Fill in {data_file}, then say", "  ")
        yield f"  # data: {_format_value(made_up)}"
    elif request.is_made_up:
        yield from _iter_comment(f"Examples: MADE UP in {data_file}. Replace them there by your own.", "  ")
    elif isinstance(request.data, Mapping):
        empty = (
            " Empty cells become NaN: where the model takes such a column, it takes NaN, too."
            if "missing" in request.data
            else ""
        )
        assumed = f" {assumption}." if (assumption := request.label_facts.assumption) else ""
        yield from _iter_comment(
            f"Examples that the model is judged by. Check how they become its inputs.{empty}{assumed}", "  "
        )
        yield from _iter_mapping("data", request.data, "  ")
        return
    else:
        yield "  # Examples that the model is judged by."
    yield f"  data: {_format_value(request.data or None)}"


def _iter_target(target: TargetText) -> Iterator[str]:
    yield f"  {target.name}:"
    yield f"    providers: {_format_value(target.providers)}"
    if target.is_cpu:
        yield "    session: {intra_op_num_threads: 1}   # one thread is least disturbed by the rest of the machine"
    else:
        yield "    missing: skip   # on machines without it, stages that need it are skipped"


def _iter_stage(stage: StageText) -> Iterator[str]:
    yield from _iter_comment(stage.comment, "  ")
    yield f"  {stage.name}:"
    yield f"    uses: {stage.uses}"
    if stage.needs:
        yield f"    needs: {_format_value(stage.needs)}"
    if stage.parameters:
        yield from _iter_mapping("with", stage.parameters, "    ")
    if stage.gate:
        yield "    gate:"
        for metric, rules in stage.gate.items():
            yield f"      {metric}: {_format_value({rule: Number(threshold) for rule, threshold in rules.items()})}"


def _iter_mapping(key: str, values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield a mapping, on one line if it fits."""
    line = f"{indent}{key}: {_format_value(values)}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{indent}{key}:"
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _iter_mapping(_format_value(name), value, f"{indent}  ")
        else:
            yield f"{indent}  {_format_value(name)}: {_format_value(value)}"


def _format_value(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_format_value(key)}: {_format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        is_plain = PLAIN.fullmatch(value) and value.lower() not in RESERVED
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _iter_comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
