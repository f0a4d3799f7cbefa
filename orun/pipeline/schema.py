"""JSON Schema (draft 7) of pipeline files, generated from the declarations of the stage kinds.

`if`/`then` on `uses` selects a stage's parameters: with `oneOf`, a misspelt parameter would be blamed on `uses`. Any
value may be a `${...}`, because an editor sees the file before it is expanded.

`python -m orun.pipeline.schema` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from orun.pipeline.fragments import EXPRESSION, NAME, Fragment, described, fields, fragment, value
from orun.pipeline.grammar import Limits
from orun.pipeline.schema_gates import gate, gates
from orun.pipeline.schema_targets import environment, target
from orun.stages.kind import Kind
from orun.stages.params import ParamType, Range, params_of
from orun.stages.registry import BUILTIN, EXPECTED, all_kinds

ID = r"^[A-Za-z_][A-Za-z0-9_-]*(\[[^\]]*\])?$"  # id of a stage, with the axes of a matrix
NAME_WORDS = "letters, digits, _ and -, beginning with a letter or _"
LARGEST_SEED = 2**32 - 1  # largest seed that every library takes
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
FILE_KIND = r"\.py:[A-Za-z_][A-Za-z0-9_]*$"


def build(kinds: Iterable[Kind] | None = None) -> dict[str, Any]:
    """Return the schema of a pipeline file with these kinds; all built-in kinds when left out."""
    known = all_kinds() if kinds is None else tuple(kinds)
    stage, target_schema = _stage(known), target()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "orun pipeline",
        "description": "Stages that build, measure and release a model, and the order they need.",
        "type": "object",
        "x-noun": "key of a pipeline file",
        "patternErrorMessage": "expected a mapping with name, vars, targets and stages",
        "additionalProperties": False,
        "properties": _top_level(),
        "if": {"not": {"required": ["extends"]}},
        "then": {
            "required": ["stages"],
            "x-noun": "key of a pipeline file",
            "properties": {
                **{key: {} for key in _top_level()},
                "stages": _require_in_each(stage, "uses")
                | {"minProperties": 1, "patternErrorMessage": "expected a mapping of stage names to stages"},
                "targets": _require_in_each(target_schema, "providers"),
            },
        },
        "definitions": {
            "stage": stage,
            "target": target_schema,
            "environment": environment(),
            "gate": gate(),
            "gates": gates(),
        },
    }


def _require_in_each(part: Fragment, required: str) -> Fragment:
    """Return the schema of a mapping whose values need a key, except in a file that extends another."""
    properties: dict[str, Fragment] = {key: {} for key in part["properties"]}
    properties[required] = {"patternErrorMessage": part["properties"][required]["patternErrorMessage"]}
    return {"additionalProperties": {"required": [required], "x-noun": part["x-noun"], "properties": properties}}


def _top_level() -> dict[str, Fragment]:
    name = value([], r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", "letters, digits, _ . and -")
    seed = fragment(ParamType("int", range=Range(0, LARGEST_SEED)))
    vars_ = {"type": "object", "patternErrorMessage": "expected a mapping of names to values"}
    extends = value(["array"], ".+", "the path of a pipeline file, or a list of them") | {"items": {"type": "string"}}
    return {
        "name": name | {"description": "Name of the pipeline; the file's name when left out."},
        "extends": extends | {"description": "Files that this one extends, relative to it; later ones win."},
        "vars": vars_ | {"description": "Values of ${vars.name}."},
        "seed": seed | {"description": "Seed of every random choice.", "default": 0},
        "secrets": _variables()
        | {"description": "Environment variables whose values stay out of keys, records, logs and reports."},
        "ship": value(["array"], "", "a list of files and folders")
        | {"items": value(["number"], ".+", "a path")}
        | {"description": "Files and folders that git ignores and that other machines need; relative to this file."},
        "environments": _named("environment")
        | {"description": "Isolated environments for packages that conflict with orun's own."},
        "targets": _named("target") | {"description": "Where models must run; `cpu` is predefined."},
        "stages": _named("stage", ID) | {"description": "Steps of the pipeline."},
    }


def _variables() -> Fragment:
    return {
        "type": ["array"],
        "patternErrorMessage": "expected a list of names of environment variables",
        "items": value([], VARIABLE, "the name of an environment variable"),
    }


def _named(kind: str, pattern: str = NAME) -> Fragment:
    return {
        "type": "object",
        "patternErrorMessage": f"expected a mapping of {kind} names to {kind}s",
        "propertyNames": {"pattern": pattern, "patternErrorMessage": f"expected {NAME_WORDS}", "x-noun": "name"},
        "additionalProperties": {"$ref": f"#/definitions/{kind}"},
    }


def _stage(kinds: tuple[Kind, ...]) -> Fragment:
    limits = {param.name: described(param) for param in params_of(Limits)}
    limits["resources"]["x-noun"] = "key of resources"
    name = value([], NAME[:-1] + r"(\[[^\]]*\])?$", "the name of a stage")
    axis = value(["array"], "", "a list of at least one value") | {
        "items": {"type": ["string", "number", "boolean"]},
        "minItems": 1,
    }
    return {
        "type": "object",
        "x-noun": "key of a stage",
        "patternErrorMessage": "expected a mapping with `uses`, and as needed `needs`, `with` and `gate`",
        "additionalProperties": False,
        "properties": {
            "uses": _uses(tuple(dict.fromkeys((*BUILTIN, *(kind.name for kind in kinds))))),
            "needs": {
                "description": "The stage that feeds it; a mapping of inputs to stages; or a list, of which the first"
                " feeds it and the others only come before it.",
                "type": ["string", "array", "object"],
                "patternErrorMessage": "expected a stage, a list of stages, or a mapping of inputs to stages",
                "pattern": name["pattern"],
                "items": name,
                "additionalProperties": name,
            },
            "with": {
                "description": "Parameters of the kind.",
                "type": "object",
                "patternErrorMessage": "expected a mapping of parameters",
            },
            "gate": gates() | {"description": "Conditions on metrics, judged on every run."},
            "matrix": {
                "description": "Values to repeat the stage for: `per_channel: [true, false]`.",
                "type": "object",
                "patternErrorMessage": "expected a mapping of axes to lists of values",
                "propertyNames": {"pattern": VARIABLE, "patternErrorMessage": "expected letters, digits and _"},
                "additionalProperties": axis,
            },
            "env": _variables() | {"description": "Environment variables that its result depends on."},
            **limits,
        },
        "allOf": [_choose(kind) for kind in kinds],
    }


def _uses(names: tuple[str, ...]) -> Fragment:
    """Return the schema of `uses`: a built-in kind, a file, or a plug-in's kind with a prefix of its own."""
    folders = "|".join(sorted({name.partition("/")[0] for name in BUILTIN}))
    plug_in = rf"^(?!({folders})/)[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+$"
    return {
        "description": "Kind of the stage: of the library, `./file.py:function`, or of a plug-in package.",
        "x-noun": "kind of stage",
        "patternErrorMessage": f"expected {EXPECTED}",
        "anyOf": [
            {"enum": list(names)},
            {"type": "string", "pattern": rf"{FILE_KIND}|{plug_in}|{EXPRESSION}"},
        ],
    }


def _choose(kind: Kind) -> Fragment:
    """Return the branch of the schema for stages of a kind."""
    ports = {
        name: {"description": f"{port.doc} Takes {' or '.join(port.accepts)}.".strip()}
        for name, port in kind.spec.inputs.items()
    }
    many = [name for name, port in kind.spec.inputs.items() if port.many]
    inputs: Fragment = {"properties": ports, "additionalProperties": False, "x-noun": f"input of {kind.name}"}
    if many:
        inputs["patternProperties"] = {rf"^{name}\.[A-Za-z_][A-Za-z0-9_-]*$": {} for name in many}
    parameters = fields(kind.params, f"parameter of {kind.name}")
    parameters["description"] = kind.doc.strip()
    if kind.origin != "file":  # custom kinds would need paths relative to the working folder
        parameters["x-hint"] = f"orun stages {kind.name}"
    then: Fragment = {
        "properties": {
            "with": parameters,
            "needs": inputs,
        }
    }
    if "required" in parameters:
        then["required"] = ["with"]
    if kind.spec.metrics:
        then["properties"]["gate"] = {"properties": {name: {} for name in kind.spec.metrics}}
    return {"if": {"properties": {"uses": {"const": kind.name}}, "required": ["uses"]}, "then": then}


if __name__ == "__main__":
    print(json.dumps(build(), indent=2, ensure_ascii=False))  # noqa: T201 - its output is the schema
