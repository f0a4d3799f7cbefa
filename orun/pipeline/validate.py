"""Validation of a tree against the JSON Schema; each complaint becomes a problem in plain language."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft7Validator, validators

from orun.pipeline.forms import advise, list_constants, suggest
from orun.pipeline.fragments import write_constant
from orun.pipeline.nodes import Map, Node, Path, Scalar, Span, describe, find, to_plain
from orun.pipeline.problems import Problems
from orun.pipeline.unknown_keys import (
    describe_odd_space,
    find_joined_key,
    guess_key,
    names_stages,
    separate,
    suggest_import,
    suggest_instead,
)
from orun.text.positions import OVERRIDE
from orun.text.suggestions import find_closest, format_choices, show_path

TYPE_WORDS: Mapping[str, str] = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
SHARED = "what anchors (&name) hold for several places may stand under `vars`"


def validate(root: Map, schema: Mapping[str, Any], problems: Problems) -> set[Path]:
    """Note everything in a tree that its schema refuses.

    Returns:
        The paths of the wrong values.
    """
    report = _Report(root, schema["definitions"]["stage"], problems)
    errors = list(_Validator(schema).iter_errors(to_plain(root)))
    # Sorted, because jsonschema visits unknown keys in no fixed order and only the first hundred are reported.
    for error in sorted(errors, key=lambda error: find(root, tuple(error.absolute_path))[1]):
        report.take(error)
    return report.unsound


def _validate_all_of(validator: Any, branches: Sequence[Any], instance: Any, _schema: Any) -> Iterator[Any]:
    """Validate a stage against the branch of its kind alone: trying all branches takes a millisecond for each stage."""
    kinds, uses = _map_kinds(branches), instance.get("uses") if isinstance(instance, Mapping) else None
    if isinstance(uses, str) and uses in kinds:
        yield from validator.descend(instance, branches[kinds[uses]], schema_path=kinds[uses])


def _map_kinds(branches: Sequence[Any]) -> Mapping[str, int]:
    """Return the index of the branch of each kind."""
    return {branch["if"]["properties"]["uses"]["const"]: place for place, branch in enumerate(branches)}


_Validator = validators.extend(Draft7Validator, {"allOf": _validate_all_of})  # type: ignore[no-untyped-call]  # typed in part


class _Report:
    def __init__(self, root: Map, stage: Mapping[str, Any], problems: Problems) -> None:
        self.root = root
        self.stage = stage  # the schema of a stage
        self.problems = problems
        self.unsound: set[Path] = set()
        self.reported = problems.list_positions()  # with a better message: an unknown kind, a missing variable

    @functools.cached_property
    def misplaced(self) -> Mapping[str | int, str]:
        """Keys of a stage that stand among the stages without `uses`, each with the stage before it."""
        keys = self.stage["properties"]
        misplaced: dict[str | int, str] = {}
        before = ""
        stages = self.root.map("stages").entries
        for name in sorted(stages, key=lambda name: stages[name].key.position):  # which a matrix changes
            inner = stages[name].value
            inner_keys = inner.entries if isinstance(inner, Map) else ()
            if name in keys and not any(guess_key(key, keys, "").startswith("uses") for key in inner_keys):
                misplaced[name] = before
            else:
                before = name.partition("[")[0]
        return misplaced

    def _note_misplaced(self, name: str) -> None:
        before, entry = self.misplaced[name], self.root.map("stages").entries[name]
        self.problems.add(
            entry.key,
            f"{name!r} is a key of a stage, and stands among the stages",
            expected=f"{name!r} indented under {before!r}, the stage before it" if before else "a stage above it",
            hint=f"a stage that is named {name!r} needs `uses`" if isinstance(entry.value, Map) else "",
        )

    def take(self, error: Any) -> None:  # a ValidationError, whose fields are typed as perhaps unset
        """Note a complaint, or the complaints of the alternative that was meant."""
        path: Path = tuple(error.absolute_path)
        node, span = find(self.root, path)
        if len(path) > 1 and path[0] == "stages" and path[1] in self.misplaced:
            self._note_misplaced(str(path[1]))
        elif error.validator == "additionalProperties":
            if isinstance(node, Map):
                self._note_unknown(error, node, path)
        elif error.validator == "required":
            self._note_missing(error, span, path)
        elif "propertyNames" in error.absolute_schema_path:
            entry = node.entries[error.instance] if isinstance(node, Map) else None
            if entry and entry.key.position not in self.reported:
                self.problems.add(
                    entry.key, f"{error.instance!r} cannot be a name here", expected=describe_expectation(error.schema)
                )
        elif error.validator == "anyOf" and (meant := _choose_alternative(error)):
            for part in meant:
                self.take(part)
        else:
            self._report_bad_value(error, node, span, path)

    def _note_unknown(self, error: Any, node: Map, path: Path) -> None:
        known = error.schema.get("properties", {})
        noun = _choose_noun(error.schema, path)
        is_stage = path[:1] == ("stages",) and path[2:] in ((), ("with",))
        for key, entry in node.entries.items():
            if not _is_known(key, error.schema):
                inherited = self._advise_inherited(entry.key, path) if is_stage else ""
                near = "" if inherited else guess_key(key, known, noun)
                needs = self._suggest_needs(key, node, path) if is_stage else ""
                is_parameter = is_stage and key in self._list_keys("with", path)
                otherwise = f"with: {{{key}: ...}}" if is_parameter else near
                is_input = is_stage and bool(needs or not otherwise)
                text = entry.value.text if is_input and isinstance(entry.value, Scalar) else ""
                self.problems.add(
                    entry.key,
                    f"{key!r} is not {_choose_article(noun)} {noun}{'' if known else ', which has none'}",
                    expected=format_choices(known),
                    suggestion=needs or otherwise,
                    hint=inherited
                    or describe_odd_space(key, near)
                    or suggest_import(text)
                    or suggest_instead(entry.key, key, noun, error.schema, path)
                    or (SHARED if not path and (key.startswith(("x-", ".")) or not near) else ""),
                )

    def _advise_inherited(self, key: Span, path: Path) -> str:
        """Say where a parameter comes from that a file inherits although it changes the kind; else empty."""
        stage, _ = find(self.root, path[:2])
        uses = stage.entries.get("uses") if isinstance(stage, Map) else None
        if not path[2:] or not uses or uses.key.file != self.root.span.file or key.file in (uses.key.file, OVERRIDE):
            return ""
        name, (above, below) = str(path[1]).partition("[")[0], map(show_path, (uses.key.file, key.file))
        return (
            f"{above} changes the kind of {name!r} and inherits its parameters: move the stage from {below} into the "
            "files that extend it, or name the new one otherwise"
        )

    def _suggest_needs(self, key: str, node: Map, path: Path) -> str:
        """Return `needs` if an unknown key of a stage, or of its `with`, is an input or has stages as its value."""
        if key in self._list_keys("needs", path):
            return f"needs: {{{key}: ...}}"
        if path[2:]:
            return ""
        listed = self._suggest_list(node) if key in self.stages else ""
        return listed or ("needs" if names_stages(node.entries[key].value, self.stages) else "")

    @functools.cached_property
    def stages(self) -> Collection[str]:
        """Names of the stages, with and without the values of their matrices."""
        names = self.root.map("stages").entries
        return {*names, *(name.partition("[")[0] for name in names)}

    def _suggest_list(self, stage: Map) -> str:
        """Return `needs` as a list if a stage's braces name further stages after its text."""
        needs = stage.get("needs")
        keys = [
            key
            for key, entry in stage.entries.items()
            if key in self.stages and isinstance(entry.value, Scalar) and not entry.value.is_written
        ]
        if not keys or not isinstance(needs, Scalar) or needs.text not in self.stages:
            return ""
        return f"needs: [{', '.join([needs.text, *keys])}]"

    def _list_keys(self, mapping: str, path: Path) -> Collection[str]:
        """Return the keys of `with` or `needs` for the kind that the stage at a path uses; none for an unknown kind."""
        stage, _ = find(self.root, path[:2])
        uses = stage.get("uses") if isinstance(stage, Map) else None
        branches = self.stage.get("allOf", ())
        kinds = _map_kinds(branches)
        if not isinstance(uses, Scalar) or uses.text not in kinds:
            return ()
        keys: Mapping[str, Any] = branches[kinds[uses.text]]["then"]["properties"][mapping].get("properties", {})
        return keys

    def _note_missing(self, error: Any, span: Span, path: Path) -> None:
        """Note missing keys; for a missing mapping with required keys, note those."""
        properties = error.schema.get("properties", {})
        unknown = [key for key in error.instance if not _is_known(key, error.schema)]
        misspelt = {find_joined_key(key, properties) or find_closest(key, properties) for key in unknown}
        for key in error.validator_value:
            if key in error.instance or key in misspelt:
                continue
            inner = properties.get(key, {})
            for name in inner.get("required", ()):
                self._report_missing_key(name, inner, span, path)
            if "required" not in inner:
                self._report_missing_key(key, error.schema, span, path)

    def _report_missing_key(self, key: str, schema: Mapping[str, Any], span: Span, path: Path) -> None:
        wanted = describe_expectation(schema.get("properties", {}).get(key, {}))
        inherited = self._list_inherited(span) if key == "uses" and path[:1] == ("stages",) else ()
        self.problems.add(
            span,
            f"missing {key!r}, a required {_choose_noun(schema, path)}",
            expected=f"`{key}:` {wanted}",
            suggestion=find_closest(str(path[-1]), inherited) if inherited else "",
            hint="no extended file has a stage of this name" if inherited else schema.get("x-hint", ""),
        )

    def _list_inherited(self, span: Span) -> Collection[str]:
        """Return the names of stages that come from another file than this one."""
        entries = self.root.map("stages").entries
        return {name.partition("[")[0] for name, entry in entries.items() if entry.key.file != span.file}

    def _report_bad_value(self, error: Any, node: Node, span: Span, path: Path) -> None:
        self.unsound.add(path)
        if span.position in self.reported or (isinstance(node, Scalar) and node.broken):
            return
        self.reported.add(span.position)
        noun = error.schema.get("x-noun", "")
        message = f"{_name(path)} cannot be {describe(node)}"
        if noun and isinstance(node, Scalar) and isinstance(node.value, str) and any(list_constants(error.schema)):
            message = f"{node.value!r} is not {_choose_article(noun)} {noun}"
        self.problems.add(
            span,
            message,
            expected=describe_expectation(error.schema),
            suggestion=suggest(node, error.schema, path)
            or separate(node.text if isinstance(node, Scalar) else "", error.schema.get("properties", ())),
            hint=advise(node, error.schema, path),
        )


def describe_expectation(schema: Mapping[str, Any]) -> str:
    """Describe what a fragment of the schema accepts."""
    if text := schema.get("patternErrorMessage"):
        return str(text).removeprefix("expected ")
    if "enum" in schema:
        return format_choices(write_constant(constant) for constant in schema["enum"])
    if "anyOf" in schema:
        parts = list(dict.fromkeys(part for branch in schema["anyOf"] if (part := describe_expectation(branch))))
        return (", or " if "," in parts[0] else " or ").join(parts)
    if "pattern" in schema:
        return ""  # the branch for expressions, which are always allowed
    types = schema.get("type", ())
    return " or ".join(TYPE_WORDS[name] for name in ([types] if isinstance(types, str) else types))


def _choose_alternative(error: Any) -> list[Any]:
    """Return the complaints of the `anyOf` branch that was meant: its type fits, and its content is wrong."""
    branches: dict[Any, list[Any]] = {}
    for part in error.context:
        branches.setdefault(part.schema_path[0], []).append(part)
    fitting = [
        parts
        for parts in branches.values()
        if all(part.relative_path or part.validator in ("additionalProperties", "required") for part in parts)
    ]
    return min(fitting, key=lambda parts: sum(map(_is_unfit, parts)), default=[])


def _is_unfit(part: Any) -> bool:
    """Return whether a complaint shows that another branch is meant: a key is missing or has another type."""
    if not part.relative_path:
        return bool(part.validator == "required")
    return len(part.relative_path) == 1 and part.validator not in ("additionalProperties", "required")


def _name(path: Path) -> str:
    """Describe the target of a path: `'needs'`, `item 2 of 'metrics'`."""
    if not path:
        return "the file"
    last = path[-1]
    return f"item {last + 1} of {_name(path[:-1])}" if isinstance(last, int) else repr(last)


def _choose_noun(schema: Mapping[str, Any], path: Path) -> str:
    return str(schema.get("x-noun") or f"key of {_name(path)}")


def _is_known(key: str, schema: Mapping[str, Any]) -> bool:
    patterns = schema.get("patternProperties", ())
    return key in schema.get("properties", ()) or any(re.search(pattern, key) for pattern in patterns)


def _choose_article(noun: str) -> str:
    return "an" if noun[:1] in "aeio" else "a"
