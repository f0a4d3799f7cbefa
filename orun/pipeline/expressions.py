"""Expressions `${vars.x}` and `${matrix.axis}` in the values of a pipeline file.

A value that is only an expression becomes the named value, with its type. Inside text, the named value is inserted as
the file wrote it. `$${` is a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.pipeline.instances import Axes
from orun.pipeline.nodes import MAX_DEPTH, MAX_SIZE, MAX_TEXT, Entry, List, Map, Node, Scalar, describe
from orun.pipeline.problems import Problems
from orun.text.suggestions import find_closest, format_choices

EXPRESSION = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
# Expressions of other tools: `{{ vars.x }}`, `$vars.x`, `$x`.
FOREIGN = re.compile(r"\{\{ *((?:vars|matrix)\.[\w.-]+) *\}\}|\$((?:(?:vars|matrix)\.)?[A-Za-z_][\w-]*)")
FORMS = "${vars.name}, or ${matrix.axis} in a stage that has a matrix"
ENVIRONMENT = "pass it with --set, or list it under `env` and read it in the stage's own code"
MATRIX = "matrix."


class _Failed(Exception):
    """An invalid expression; the problem is already noted."""


class Expressions:
    """Replacement of expressions by their values."""

    def __init__(self, variables: Map, problems: Problems) -> None:
        self.problems = problems
        self.raw = variables
        self.used: set[str] = set()  # variables that expressions name
        self.foreign: dict[Position, str] = {}  # what texts that look like expressions probably mean
        self._resolved: dict[str, Node] = {}
        self._resolving: list[str] = []
        self._letters = 0  # length of all composed texts

    def resolve_variables(self) -> Map:
        """Return the `vars` with their own expressions replaced."""
        entries = {name: Entry(entry.key, self._resolve_entry(name)) for name, entry in self.raw.entries.items()}
        return self.raw.with_entries(entries)

    def substitute(self, node: Node, axes: Axes | None = None) -> Node:
        """Return the node with every expression replaced; an invalid one leaves its scalar unchanged and `broken`.

        Args:
            node: any node.
            axes: values of `${matrix.axis}`; None without a matrix.
        """
        return self.require_bounded(self._walk(node, axes))

    def _walk(self, node: Node, axes: Axes | None) -> Node:
        if isinstance(node, Map):
            entries = {key: Entry(entry.key, self._walk(entry.value, axes)) for key, entry in node.entries.items()}
            return node.with_entries(entries)
        if isinstance(node, List):
            return List(tuple(self._walk(item, axes) for item in node.items), node.span)
        if isinstance(node.value, str) and "${" not in node.value:
            self._note_foreign(node, axes)
        if not isinstance(node.value, str) or "${" not in node.value or node.broken:
            return node
        try:
            return self._substitute_scalar(node, node.value, axes)
        except _Failed:
            return replace(node, broken=True)

    def _substitute_scalar(self, node: Scalar, text: str, axes: Axes | None) -> Node:
        matched = EXPRESSION.fullmatch(text)
        if matched and matched[1] is not None:
            value = self._resolve(matched, node, axes)
            if not isinstance(value, Scalar):
                return value
            return replace(value, span=node.span, via=matched[0])
        parts: list[str] = []
        end = 0
        for matched in EXPRESSION.finditer(text):
            parts += (text[end : matched.start()], self._substitute_text(matched, node, axes))
            end = matched.end()
        parts.append(text[end:])
        self._letters += sum(map(len, parts))
        if self._letters > MAX_TEXT:
            message = f"the file holds more than {MAX_TEXT >> 20} MiB of text"
            self.problems.add(node.span, f"with its variables and matrices written out, {message}")
            self.problems.check()
        joined = "".join(parts)
        return replace(node, value=joined, text=joined, via=text if joined != text else "")

    def _substitute_text(self, matched: re.Match[str], node: Scalar, axes: Axes | None) -> str:
        if matched[1] is None:
            return "${"
        value = self._resolve(matched, node, axes)
        if not isinstance(value, Scalar):
            self._fail(matched, node, f"{matched[0]} is {describe(value)}, which cannot stand within text")
        return value.text

    def _resolve(self, matched: re.Match[str], node: Scalar, axes: Axes | None) -> Node:
        space, _, name = matched[1].strip().partition(".")
        if not matched[2]:
            self._fail(matched, node, f"the expression {matched[0]} is not closed", expected="'}'")
        if space == "vars" and name:
            return self._resolve_variable(name, matched, node)
        if space == "matrix" and name:
            return self._resolve_axis(name, matched, node, axes)
        return self._fail(
            matched,
            node,
            f"{matched[0]} means nothing here",
            expected=FORMS,
            suggestion=self._suggest_expression(matched[1], axes),
            hint=ENVIRONMENT if space == "env" else "",
        )

    def _note_foreign(self, node: Scalar, axes: Axes | None) -> None:
        """Note an expression in the notation of another tool, if it names a variable or an axis."""
        for matched in FOREIGN.finditer(node.text):
            if meant := self._suggest_expression(matched[1] or matched[2], axes):
                self.foreign[node.span.position] = meant
                self.problems.add_note(node.span, f"{matched[0]!r} stays as it is", suggestion=meant)

    def _suggest_expression(self, written: str, axes: Axes | None) -> str:
        """Return the probable expression: with its missing namespace, or with single braces."""
        name = written.strip(" {}").removeprefix("vars.").removeprefix("matrix.")
        if name in (axes or ()):
            return f"${{matrix.{name}}}"
        return f"${{vars.{name}}}" if name in self.raw.entries else ""

    def _resolve_variable(self, name: str, matched: re.Match[str], node: Scalar) -> Node:
        first, *rest = name.split(".")
        if first not in self.raw.entries:
            self._raise_unknown(f"there is no variable {first!r}", first, self.raw.entries, matched, node)
        self.used.add(first)
        if first in self._resolving:
            loop = " -> ".join([*self._resolving[self._resolving.index(first) :], first])
            self._fail(matched, node, f"these variables refer to one another in a loop: {loop}")
        if len(self._resolving) >= MAX_DEPTH:
            self._fail(matched, node, f"variables refer to one another more than {MAX_DEPTH} deep")
        target = self._resolve_entry(first)
        for key in rest:
            entries = target.entries if isinstance(target, Map) else {}
            if key not in entries:
                self._raise_unknown(f"the variable {first!r} has no key {key!r}", key, entries, matched, node)
            target = entries[key].value
        if isinstance(target, Scalar) and target.broken:
            raise _Failed
        return target

    def _resolve_entry(self, name: str) -> Node:
        if name not in self._resolved:
            self._resolving.append(name)
            self._resolved[name] = self.substitute(self.raw.entries[name].value)
            self._resolving.pop()
        return self._resolved[name]

    def _resolve_axis(self, name: str, matched: re.Match[str], node: Scalar, axes: Axes | None) -> Scalar:
        if axes is None:
            self._fail(
                matched, node, f"{matched[0]} stands where there is no matrix", expected="${matrix.axis} in a stage"
            )
        if name not in axes:
            self._raise_unknown(f"the stage's matrix has no axis {name!r}", name, axes, matched, node)
        if axes[name].broken:
            raise _Failed
        return axes[name]

    def _raise_unknown(
        self, message: str, name: str, known: Mapping[str, object], matched: re.Match[str], node: Scalar
    ) -> NoReturn:
        self._fail(matched, node, message, expected=format_choices(known), suggestion=find_closest(name, known))

    def _fail(
        self,
        matched: re.Match[str],
        node: Scalar,
        message: str,
        *,
        expected: str = "",
        suggestion: str = "",
        hint: str = "",
    ) -> NoReturn:
        at = node.span.source.find(matched[0], node.span.column - 1)
        start = at + 1 - node.span.column
        self.problems.add(
            node.span.cut(start, len(matched[0])) if at >= 0 else node.span,
            message,
            expected=expected,
            suggestion=suggestion,
            hint=hint,
        )
        raise _Failed

    def require_bounded(self, node: Node) -> Node:
        """Return the node if its size is within the limits.

        Raises:
            PipelineError: with all problems so far, when variables or matrices make it too large.
        """
        if node.size > MAX_SIZE or node.depth > MAX_DEPTH:
            many, deep = f"holds more than {MAX_SIZE} values", f"is nested more than {MAX_DEPTH} deep"
            excess = many if node.size > MAX_SIZE else deep
            self.problems.add(node.span, f"with its variables and matrices written out, this {excess}")
            self.problems.check()
        return node


def list_used_axes(nodes: Iterable[Scalar]) -> set[str]:
    """Return the axes that the expressions in some scalars name."""
    texts = (node.value for node in nodes if isinstance(node.value, str))
    inner = (match[1].strip() for text in texts for match in EXPRESSION.finditer(text) if match[1])
    return {name.removeprefix(MATRIX) for name in inner if name.startswith(MATRIX)}
