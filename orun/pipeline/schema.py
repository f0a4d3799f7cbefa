"""JSON Schema (draft 7) of pipeline files, generated from the declarations of the stage kinds.

`if`/`then` on `uses` selects a stage's parameters: with `oneOf`, a misspelt parameter would be blamed on `uses`. Any
value may be a `${...}`, because an editor sees the file before it is expanded.

`python -m orun.pipeline.schema` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orun.pipeline.fragments import (
    CONDITION,
    EXPRESSION,
    NAME,
    Fragment,
    build_choice,
    build_fragment,
    build_object,
    build_value,
    describe_param,
)
from orun.pipeline.grammar import RULES, Limits
from orun.pipeline.schema_targets import build_environment, build_target
from orun.providers.registry import PROVIDERS
from orun.providers.spec import ProviderSpec
from orun.stages.kind import Kind
from orun.stages.params import ParamType, Range, list_params
from orun.stages.registry import BUILTIN, EXPECTED, list_kinds
from orun.text.units import NUMBER, THRESHOLD_FORMS, THRESHOLD_UNITS

ID = r"^[A-Za-z_][A-Za-z0-9_-]*(\[[^\]]*\])?$"  # id of a stage, with the axes of a matrix
NAME_WORDS = "letters, digits, _ and -, beginning with a letter or _"
LARGEST_SEED = 2**32 - 1  # largest seed that every library takes
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
FILE_KIND = r"\.py:[A-Za-z_][A-Za-z0-9_]*$"

THRESHOLD = rf"^{NUMBER} *({'|'.join(THRESHOLD_UNITS)})?$"
SPEEDUP = rf"^{NUMBER}x?$"
GROUPS: Mapping[str, str] = {
    "all": "Gates that must all pass.",
    "any": "Gates at least one of which must pass; an item with several conditions passes if all of them pass.",
}


def build(kinds: Iterable[Kind] | None = None, providers: Mapping[str, ProviderSpec] = PROVIDERS) -> dict[str, Any]:
    """Return the schema of a pipeline file with these kinds and providers; the built-in ones when left out."""
    known = list_kinds() if kinds is None else tuple(kinds)
    stage, target_schema = _build_stage(known), build_target(providers)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "orun pipeline",
        "description": "Stages that build, measure and release a model, and the order they need.",
        "type": "object",
        "x-noun": "key of a pipeline file",
        "patternErrorMessage": "expected a mapping with name, vars, targets and stages",
        "additionalProperties": False,
        "properties": _build_top_level(),
        "if": {"not": {"required": ["extends"]}},
        "then": {
            "required": ["stages"],
            "x-noun": "key of a pipeline file",
            "properties": {
                **{key: {} for key in _build_top_level()},
                "stages": _require_in_each(stage, "uses")
                | {"minProperties": 1, "patternErrorMessage": "expected a mapping of stage names to stages"},
                "targets": _require_in_each(target_schema, "providers"),
            },
        },
        "definitions": {
            "stage": stage,
            "target": target_schema,
            "environment": build_environment(),
            "gate": _build_gate(),
            "gates": _build_gates(),
        },
    }


def _require_in_each(part: Fragment, required: str) -> Fragment:
    """Return the schema of a mapping whose values need a key, except in a file that extends another."""
    properties: dict[str, Fragment] = {key: {} for key in part["properties"]}
    properties[required] = {"patternErrorMessage": part["properties"][required]["patternErrorMessage"]}
    return {"additionalProperties": {"required": [required], "x-noun": part["x-noun"], "properties": properties}}


def _build_top_level() -> dict[str, Fragment]:
    name = build_value([], r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", "letters, digits, _ . and -")
    seed = build_fragment(ParamType("int", range=Range(0, LARGEST_SEED)))
    vars_ = {"type": "object", "patternErrorMessage": "expected a mapping of names to values"}
    extends = build_value(["array"], ".+", "the path of a pipeline file, or a list of them") | {
        "items": {"type": "string"}
    }
    return {
        "name": name | {"description": "Name of the pipeline; the file's name when left out."},
        "extends": extends | {"description": "Files that this one extends, relative to it; later ones win."},
        "vars": vars_ | {"description": "Values of ${vars.name}."},
        "seed": seed | {"description": "Seed of every random choice.", "default": 0},
        "secrets": _build_variables()
        | {"description": "Environment variables whose values stay out of keys, records, logs and reports."},
        "ship": build_value(["array"], "", "a list of files and folders")
        | {"items": build_value(["number"], ".+", "a path")}
        | {"description": "Files and folders that git ignores and that other machines need; relative to this file."},
        "environments": _build_name_property("environment")
        | {"description": "Isolated environments for packages that conflict with orun's own."},
        "targets": _build_name_property("target") | {"description": "Where models must run; `cpu` is predefined."},
        "stages": _build_name_property("stage", ID) | {"description": "Steps of the pipeline."},
    }


def _build_variables() -> Fragment:
    return {
        "type": ["array"],
        "patternErrorMessage": "expected a list of names of environment variables",
        "items": build_value([], VARIABLE, "the name of an environment variable"),
    }


def _build_name_property(kind: str, pattern: str = NAME) -> Fragment:
    return {
        "type": "object",
        "patternErrorMessage": f"expected a mapping of {kind} names to {kind}s",
        "propertyNames": {"pattern": pattern, "patternErrorMessage": f"expected {NAME_WORDS}", "x-noun": "name"},
        "additionalProperties": {"$ref": f"#/definitions/{kind}"},
    }


def _build_stage(kinds: tuple[Kind, ...]) -> Fragment:
    limits = {param.name: describe_param(param) for param in list_params(Limits)}
    limits["resources"]["x-noun"] = "key of resources"
    name = build_value([], NAME[:-1] + r"(\[[^\]]*\])?$", "the name of a stage")
    axis = build_value(["array"], "", "a list of at least one value") | {
        "items": {"type": ["string", "number", "boolean"]},
        "minItems": 1,
    }
    return {
        "type": "object",
        "x-noun": "key of a stage",
        "patternErrorMessage": "expected a mapping with `uses`, and as needed `needs`, `with` and `gate`",
        "additionalProperties": False,
        "properties": {
            "uses": _build_uses(tuple(dict.fromkeys((*BUILTIN, *(kind.name for kind in kinds))))),
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
            "gate": _build_gates() | {"description": "Conditions on metrics, judged on every run."},
            "matrix": {
                "description": "Values to repeat the stage for: `per_channel: [true, false]`.",
                "type": "object",
                "patternErrorMessage": "expected a mapping of axes to lists of values",
                "propertyNames": {"pattern": VARIABLE, "patternErrorMessage": "expected letters, digits and _"},
                "additionalProperties": axis,
            },
            "env": _build_variables() | {"description": "Environment variables that its result depends on."},
            **limits,
        },
        "allOf": [_choose(kind) for kind in kinds],
    }


def _build_gates() -> Fragment:
    return {
        "type": "object",
        "patternErrorMessage": "expected a mapping of metrics to conditions, as in `p50: {max: 12ms}`",
        "properties": {
            name: {
                "description": doc,
                "type": "array",
                "minItems": 1,
                "patternErrorMessage": "expected a list of gates, as in `[p50: {max: 12ms}, speedup: {min: 1.5}]`",
                "items": {"$ref": "#/definitions/gates"},
            }
            for name, doc in GROUPS.items()
        },
        "additionalProperties": {"$ref": "#/definitions/gate"},
    }


def _build_gate() -> Fragment:
    threshold = build_value(["number"], THRESHOLD, THRESHOLD_FORMS)
    speedup = build_value(["number"], SPEEDUP, "a factor such as 1.5 or 1.5x")
    rules: Mapping[str, Fragment] = {
        rule: (speedup if rule == "min_speedup" else threshold) | {"description": doc} for rule, doc in RULES.items()
    }
    undecided = build_choice(["allow", "block", "fail"]) | {
        "description": "What an undecided gate does: `allow` releases behind it, `block` them (exit 4), or `fail` the"
        " run (exit 4), whether there is a release or not.",
        "default": "block",
    }
    return {
        "type": "object",
        "x-noun": CONDITION,
        "x-lists": list(GROUPS),
        "patternErrorMessage": "expected a condition such as {max: 12ms} or {max_drop: 1%}",
        "additionalProperties": False,
        "properties": {**rules, "undecided": undecided, **_build_scopes()},
    }


def _build_scopes() -> dict[str, Fragment]:
    """Return the schemas of the keys that limit a gate to references, slices or a target."""
    reference = build_value([], NAME, "the name of a reference")
    return {
        "against": build_value(["array"], NAME, "the name of a reference, or a list of them")
        | {
            "description": "The references that the model is compared with: `reference`, and NAME of an input"
            " `reference.NAME`; each is a gate.",
            "items": reference,
            "minItems": 1,
        },
        "by": build_value([], NAME, "a field of the dataset")
        | {"description": "Field of `slices`: each of its values must pass by itself."},
        "target": build_value([], NAME, "the name of a target")
        | {"description": "Target of the gate; stages of the matrix on other targets do not have it."},
    }


def _build_uses(names: tuple[str, ...]) -> Fragment:
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
    parameters = build_object(kind.params, f"parameter of {kind.name}")
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
