"""JSON Schema (draft 7) of the values that a pipeline file may write.

Besides the standard keywords a fragment may carry
    patternErrorMessage   what is expected, in words; editors show it, and so do our messages
    x-noun                what a key of the object is ("parameter of quantize/dynamic"), or what the value is
    x-hint                what to do about a value or key that is refused
    x-lists               keys for lists ("all", "any"), one of which is meant where a list stands below a similar key
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from orun.core.metrics import Unit
from orun.stages.params import Param, ParamType, TypeName
from orun.text.suggestions import format_choices
from orun.text.units import DURATION_FORM, DURATIONS, NUMBER, RATIO_FORM, SIZE_FORM, SIZES, Form, show

Fragment = dict[str, Any]

# `${vars.x}` may stand for any value, so an editor must accept it everywhere; `$${` is a literal `${`.
EXPRESSION = r"(^|[^$])\$\{"
NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
CODE = r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$"
CONDITION = "rule of a gate"  # the `x-noun` of the keys of a condition


def _with_units(units: Sequence[str]) -> str:
    return rf"^{NUMBER} *({'|'.join(units)})?$"


DURATION = _with_units(tuple(DURATIONS))
DURATION_OR_NONE = rf"^({NUMBER} *({'|'.join(DURATIONS)})|0)$"
SIZE = _with_units(tuple(SIZES))
RATIO = _with_units(["%"])

# Added to the schema of a duration: `maximum` bounds only numbers, and 0 is equal in every unit.
_UNIT_NEEDED: Fragment = {
    "pattern": f"{DURATION_OR_NONE}|{EXPRESSION}",
    "maximum": 0,
    "x-hint": "a time, not a count of runs: 10s for 10 seconds, 50ms for 50 milliseconds",
}

# JSON types beside text; the pattern of the text form ("" when only an expression is one, None for any text); words.
SIMPLE: Mapping[TypeName, tuple[tuple[str, ...], str | None, str | Form]] = {
    "bool": (("boolean",), "", "true or false"),
    "int": (("integer",), "", "a whole number"),
    "float": (("number",), "", "a number"),
    "str": (("number",), None, "text"),  # a number keeps its text: `1.10` is "1.10"
    "path": (("number",), ".+", "the path of a file or folder"),
    "target": ((), ".+", "the name of a target"),
    "code": ((), CODE, "file.py:function, with the file's path relative to this one"),
    "duration": (("number",), DURATION, DURATION_FORM),
    "size": (("number",), SIZE, SIZE_FORM),
    "ratio": (("number",), RATIO, RATIO_FORM),
}


def build_fragment(kind: ParamType) -> Fragment:
    """Return the schema of one value of that type."""
    if kind.name == "any":
        return {}
    if kind.name == "literal":
        return build_choice([*kind.choices, *((None,) if kind.optional else ())])
    if kind.name == "union":
        branches = [build_fragment(item) for item in kind.items]
        return {"anyOf": [*branches, *([{"type": "null"}] if kind.optional else [])]}
    if kind.name in SIMPLE:
        types, pattern, _ = SIMPLE[kind.name]
        schema = build_value(types, pattern, describe_type(kind))
        schema |= _build_bounds(kind) | (_UNIT_NEEDED if kind.with_unit else {})
    elif kind.name == "list":
        schema = build_value(["array"], "", describe_type(kind)) | {"items": build_fragment(kind.items[0])}
    elif kind.name == "map":
        schema = build_value(["object"], "", describe_type(kind)) | {
            "additionalProperties": build_fragment(kind.items[0])
        }
    else:
        schema = build_object(kind.fields) | ({"minProperties": 1, "maxProperties": 1} if kind.one_key else {})
        schema["patternErrorMessage"] = f"expected {describe_type(kind)}"
    if kind.optional:
        schema["type"] = [*schema["type"], "null"]
    return schema


def build_value(types: Sequence[str], pattern: str | None, expected: str) -> Fragment:
    """Return the schema of a value: one of these JSON types, a text of the pattern (None: any), or an expression."""
    schema: Fragment = {"type": [*types, "string"]}
    if pattern is not None:
        schema["pattern"] = "|".join(part for part in (pattern, EXPRESSION) if part)
    return schema | {"patternErrorMessage": f"expected {expected}"}


def build_choice(values: Sequence[Any], noun: str = "") -> Fragment:
    """Return the schema of a choice of values, or an expression."""
    schema: Fragment = {"anyOf": [{"enum": list(values)}, {"type": "string", "pattern": EXPRESSION}]}
    return schema | ({"x-noun": noun} if noun else {})


def build_object(params: Sequence[Param], noun: str = "") -> Fragment:
    """Return the schema of an object with these parameters as keys."""
    schema = build_value(["object"], "", _describe_mapping(params))
    schema["properties"] = {param.name: describe_param(param) for param in params}
    schema["additionalProperties"] = False
    if noun:
        schema["x-noun"] = noun
    if required := [param.name for param in params if param.required]:
        schema["required"] = required
    return schema


def describe_param(param: Param) -> Fragment:
    """Return the schema of a parameter with its documentation and default."""
    schema = build_fragment(param.type)
    if param.doc:
        schema["description"] = param.doc
    if not param.required:
        schema["default"] = to_plain_default(param.default)
    if param.type.with_unit:
        schema["default"] = show(param.default, "s").replace(" ", "")  # as a file may write the default
    return schema


def to_plain_default(default: Any) -> Any:
    """Return a default as plain data, without the marker types of `params.py`."""
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return {field.name: to_plain_default(getattr(default, field.name)) for field in dataclasses.fields(default)}
    if isinstance(default, Mapping):
        return {str(key): to_plain_default(item) for key, item in default.items()}
    if isinstance(default, (list, tuple)):
        return [to_plain_default(item) for item in default]
    if isinstance(default, bool) or default is None:
        return default
    return next((base(default) for base in (int, float, str) if isinstance(default, base)), default)


def describe_type(kind: ParamType) -> str:
    """Describe a type for a message."""
    if kind.name == "literal":
        text = format_choices(write_constant(choice) for choice in kind.choices)
    elif kind.name == "list":
        text = f"a list, each item {describe_type(kind.items[0])}"
    elif kind.name == "map":
        text = f"a mapping, each value {describe_type(kind.items[0])}"
    elif kind.name == "object":
        text = _describe_mapping(kind.fields, "with one key of" if kind.one_key else "of")
    elif kind.name == "union":
        text = " or ".join(describe_type(item) for item in kind.items)
    elif kind.name == "any":
        text = "anything"
    else:
        bounds, form = _describe_bounds(kind), SIMPLE[kind.name][2]
        text = form.describe(bounds, with_unit=kind.with_unit) if isinstance(form, Form) else f"{form}{bounds}"
    return text


def _describe_mapping(params: Sequence[Param], preposition: str = "of") -> str:
    names = ", ".join(param.name for param in params)
    return f"a mapping {preposition} {names}" if params else "nothing: there are no parameters"


def write_constant(constant: Any) -> str:
    """Return a constant as a YAML file writes it."""
    if constant is None:
        return "null"
    return str(constant).lower() if isinstance(constant, bool) else str(constant)


def _build_bounds(kind: ParamType) -> Fragment:
    low, high = kind.range.low, kind.range.high
    return {
        **({"minimum": low} if low is not None else {}),
        **({"maximum": high} if high is not None else {}),
    }


def _describe_bounds(kind: ParamType) -> str:
    """Return the bounds as a clause after a noun: ` of at least 0`; empty if there are none."""
    low, high = (None if bound is None else _write_bound(bound, kind) for bound in (kind.range.low, kind.range.high))
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return f" of at most {high}" if high is not None else ""


def _write_bound(number: float, kind: ParamType) -> str:
    """Return a bound in the file's notation: `1MB` for a size."""
    units: Mapping[TypeName, Unit] = {"duration": "s", "size": "B"}
    unit = units.get(kind.name)
    return show(number, unit).replace(" ", "") if unit and number else f"{number:.15g}"
