"""Suggestions for a value of the wrong form, in the file's own notation."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from orun.pipeline.fragments import CONDITION, EXPRESSION, write_constant
from orun.pipeline.nodes import List, Map, Node, Path, Scalar, to_plain
from orun.text.suggestions import find_closest
from orun.text.units import NUMBER, PER_SECOND, THRESHOLD_UNITS, respell, split

# Booleans of YAML 1.1, which people still write.
BOOLEANS: Mapping[str, str] = {
    **dict.fromkeys(("yes", "on", "y", "true"), "true"),
    **dict.fromkeys(("no", "off", "n", "false"), "false"),
}
A_NUMBER = re.compile(NUMBER)
COMPARED = re.compile(rf"(?P<metric>[A-Za-z_][^ <>=]*)? *(?P<sign>[<>])=? *(?P<limit>{NUMBER} ?[^ ]*)")
EXAMPLE = re.compile(r"`(\{[^`]*\})`")  # in the description of a mapping
INPUT = re.compile(r"(?P<dtype>\w*) ?\[(?P<shape>[^][]*)\]")  # float32[batch,8]
GROUPS = ("all", "any")
UNLIMITED = "leave it out for no limit"
LONGEST = 80  # most letters of a suggestion


def suggest(node: Node, schema: Mapping[str, Any], path: Path) -> str:
    """Return the probable meaning of a value that its schema refuses; empty without a close one."""
    if names := _list_variables(node, path):
        return _write_flow(names) if isinstance(node, Map) else names[0]
    if isinstance(node, List):
        return _suggest_for_list(node, schema, path)
    if isinstance(node, Map):
        listed = path[-1:] and path[-1] in GROUPS
        return _write_flow([{key: to_plain(entry.value)} for key, entry in node.entries.items()]) if listed else ""
    if node.value is None or node.via:
        return ""
    if "shape" in schema.get("properties", ()) and (declared := INPUT.fullmatch(node.text)):
        return _suggest_input(declared["dtype"], declared["shape"], schema["properties"])
    return _suggest_for_text(node.text, schema) if isinstance(node.value, str) else _suggest_for_constant(node, schema)


def advise(node: Node, schema: Mapping[str, Any], path: Path) -> str:
    """Return how to write a thing that takes more than another value."""
    if _list_variables(node, path):
        return "`env` names variables; their values come from outside, as in `NAME=value orun FILE`"
    example = EXAMPLE.search(schema.get("description", "")) if "object" in schema.get("type", ()) else None
    if example and path and not isinstance(node, Map) and not suggest(node, schema, path):
        return f"for example `{path[-1]}: {example[1]}`"
    if isinstance(node, Scalar):
        if path[-1:] == ("timeout",) and node.value == 0 and not isinstance(node.value, bool):
            return UNLIMITED
        return str(schema.get("x-hint", "")) if A_NUMBER.fullmatch(node.text) else ""
    if isinstance(node, Map):
        by_name = isinstance(path[-1], int) and path[-2:-1] == ("needs",) if path else False
        return "inputs go by name in a mapping, without a list: `needs: {model: STAGE, ...}`" if by_name else ""
    if schema.get("x-noun") == CONDITION and len(node.items) > 1 and not suggest(node, schema, path):
        return f"conditions that differ are members of a group: `all: [{path[-1]}: {{...}}, {path[-1]}: {{...}}]`"
    return ""


def _list_variables(node: Node, path: Path) -> list[str]:
    """Return the names of the environment variables that a stage's `env` sets, as other tools let it."""
    if path[:1] != ("stages",) or path[2:3] != ("env",):
        return []
    if isinstance(node, Map):
        return [*node.entries]
    name, sign, _ = node.text.partition("=") if isinstance(node, Scalar) else ("", "", "")
    return [name] if sign and name.isidentifier() else []


def _suggest_for_list(node: List, schema: Mapping[str, Any], path: Path) -> str:
    """Suggest the mapping that a misplaced list stands for: a key takes an item, or the items are its fields."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    items = to_plain(node)
    if "shape" in properties:
        return f"{{shape: [{', '.join(map(write_constant, items))}]}}"
    if near := find_closest(str(path[-1]), schema.get("x-lists", ())) if path else "":
        return near
    if (key := _guess_key(properties)) and items and all(isinstance(item, str) for item in items):
        meant = [_suggest_item(item, properties[key]) for item in items]
        return _write_flow({key: meant}) if all(meant) else ""
    if "object" not in schema.get("type", ()) or not items or not all(isinstance(item, dict) for item in items):
        return ""
    if all(isinstance(item.get("name"), str) for item in items):  # key for the name of an item in other tools
        items = [{item["name"]: {key: value for key, value in item.items() if key != "name"}} for item in items]
    known = schema.get("x-noun") == CONDITION and all(properties.keys() >= item.keys() for item in items)
    if not known and (schema.get("x-noun") == CONDITION or any(len(item) != 1 for item in items)):
        return ""
    merged = {key: value for item in items for key, value in item.items()}
    return _write_flow(merged) if len(merged) == sum(map(len, items)) else ""


def _suggest_for_constant(node: Scalar, schema: Mapping[str, Any]) -> str:
    """Return the probable value for a misplaced number or boolean."""
    from orun.text.aliases import resolve_alias

    if schema.get("x-noun") == CONDITION and A_NUMBER.fullmatch(node.text):
        return _suggest_condition(node.text)
    if "array" in schema.get("type", ()) and schema.get("pattern") == EXPRESSION:
        return f"[{node.text}]"
    choices = _list_names(schema)
    quoted = f'"{node.text}"' if node.text in choices else ""  # quotes make it text
    return quoted or (resolve_alias(node.text, choices) if A_NUMBER.fullmatch(node.text) else "")


def _suggest_for_text(text: str, schema: Mapping[str, Any]) -> str:
    comparison, types = COMPARED.fullmatch(text), schema.get("type", ())
    if schema.get("x-noun") == CONDITION:
        if comparison and not comparison["metric"]:
            return _describe_comparison(comparison)
        return _suggest_condition(text) if (parts := split(text)) and parts[1] in (*THRESHOLD_UNITS, "") else ""
    if comparison and comparison["metric"] and "all" in schema.get("properties", ()):
        return f"{{{comparison['metric']}: {_describe_comparison(comparison)}}}"
    if not text:
        return ""
    if "array" in types and schema.get("pattern", EXPRESSION) == EXPRESSION:
        return _write_flow([item]) if (item := _suggest_item(text, schema)) else ""
    if key := _guess_key(schema.get("properties", ())):
        return _write_flow({key: [item]}) if (item := _suggest_item(text, schema["properties"][key])) else ""
    if "boolean" in types:
        return BOOLEANS.get(text.lower(), "")
    if not {"integer", "number"}.isdisjoint(types) and A_NUMBER.fullmatch(text) and "x-hint" not in schema:
        return text  # without the quotes
    if (spelt := respell(text)) and re.search(str(schema.get("pattern", "")), spelt):
        return spelt
    return find_closest(text, _list_names(schema))


def _suggest_input(dtype: str, shape: str, properties: Mapping[str, Any]) -> str:
    """Return the mapping for an input in the notation of arrays; empty for an unknown type or a missing axis."""
    axes = [axis.strip() for axis in shape.split(",")]
    if not all(axes) or (dtype and dtype not in _list_names(properties.get("dtype", {}))):
        return ""
    return f"{{shape: [{', '.join(axes)}]{dtype and f', dtype: {dtype}'}}}"


def _guess_key(properties: Collection[str]) -> str:
    """Return the probable key for a bare list: of a target or an environment."""
    return next((key for key in ("providers", "packages") if key in properties), "")


def _suggest_item(text: str, schema: Mapping[str, Any]) -> str:
    """Return an item in the form of the list, such as the provider for `cpu`; else an empty text."""
    names = _list_names(schema.get("items", {}))
    return find_closest(text, names) if names else text


def _suggest_condition(limit: str) -> str:
    """Return a bare limit as a condition: a maximum for times and sizes, a minimum for proportions and rates."""
    unit = (split(limit) or (0, ""))[1]
    if unit in ("%", "x", PER_SECOND):
        return f"{{min: {limit}}}"
    return f"{{max: {limit}}}" if unit else f"{{min: {limit}}} or {{max: {limit}}}"


def _describe_comparison(comparison: re.Match[str]) -> str:
    return f"{{{'max' if comparison['sign'] == '<' else 'min'}: {comparison['limit']}}}"


def _list_names(schema: Mapping[str, Any]) -> list[str]:
    return [choice for choice in list_constants(schema) if isinstance(choice, str)]


def list_constants(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values that a schema lists."""
    yield from schema.get("enum", ())
    for branch in (*schema.get("anyOf", ()), *([schema["else"]] if "else" in schema else [])):
        yield from list_constants(branch)


def _write_flow(data: Any) -> str:
    """Return data in flow style on one line; empty if that is too long."""
    text = _write_short(data)
    return text if len(text) <= LONGEST else ""


def _write_short(data: Any) -> str:
    if isinstance(data, Mapping):
        return f"{{{', '.join(f'{key}: {_write_short(value)}' for key, value in data.items())}}}"
    if isinstance(data, Sequence) and not isinstance(data, str):
        return f"[{', '.join(map(_write_short, data))}]"
    return write_constant(data)
