"""Text of a pipeline file, with comments that teach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orun.scaffold.recipe import StageText

PLAIN = re.compile(r"[A-Za-z_./][\w./:-]*|\d+(\.\d+)?(%|[kMG]?B)?")
RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~"})
WIDTH = 100


def pipeline_text(name: str, file: str, stages: Sequence[StageText], left_out: Mapping[str, str]) -> str:
    """Return the text of a pipeline file.

    Args:
        name: of the pipeline.
        file: the path of the file, as one types it.
        stages: in order.
        left_out: stages that were tried and refused the model, with their reasons.
    """
    lines = [
        f"# Written by `orun init`. Yours to edit: `orun plan {file}` says what a change would run again.",
        f"# Run it: orun {file}",
        f"name: {_value(name)}",
        "",
        "targets:",
        "  cpu:",
        "    providers: [CPUExecutionProvider]",
        "    session: {intra_op_num_threads: 1}   # one thread is least disturbed by the rest of the machine",
        "",
        "stages:",
    ]
    for stage in stages:
        lines += [*_stage(stage), ""]
    for left, why in left_out.items():
        lines += [*_comment(f"Left out: {left} refused this model: {why}", ""), ""]
    return "\n".join(lines[:-1]) + "\n"


def _stage(stage: StageText) -> Iterator[str]:
    yield from _comment(stage.comment, "  ")
    yield f"  {stage.name}:"
    yield f"    uses: {stage.uses}"
    if stage.needs:
        yield f"    needs: {_value(stage.needs)}"
    if stage.parameters:
        yield from _mapping("with", stage.parameters)
    if stage.gate:
        yield "    gate:"
        yield from (f"      {metric}: {_value(rules)}" for metric, rules in stage.gate.items())


def _mapping(key: str, values: Mapping[str, Any]) -> Iterator[str]:
    """A mapping on one line where it fits."""
    whole = f"    {key}: {_value(values)}"
    if len(whole) <= WIDTH:
        yield whole
        return
    yield f"    {key}:"
    for name, value in values.items():
        line = f"      {_value(name)}: {_value(value)}"
        if len(line) <= WIDTH or not isinstance(value, Mapping):
            yield line
        else:
            yield f"      {_value(name)}:"
            yield from (f"        {_value(inner)}: {_value(item)}" for inner, item in value.items())


def _value(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_value(key)}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) and value.lower() not in RESERVED else json.dumps(value)
    return json.dumps(value)


def _comment(text: str, indent: str) -> Iterator[str]:
    import textwrap

    yield from textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )
