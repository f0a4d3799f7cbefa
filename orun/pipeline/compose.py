"""YAML text to nodes with positions.

PyYAML's composer recurses for each level, so that a file nested 10,000 deep would overflow the stack. This module
composes the parser's events in a loop instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from orun.pipeline.nodes import MAX_DEPTH, MAX_SIZE, Entry, List, Map, Node, Scalar, Span
from orun.pipeline.problems import Problems
from orun.pipeline.scalars import resolve
from orun.pipeline.text import Text
from orun.text.suggestions import find_closest

PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE = "<<"


def compose(text: Text, problems: Problems) -> Node | None:
    """Return the root of the only document in a YAML text.

    Returns:
        The root; None if the text is empty (no problem), or cannot be parsed (noted as a problem).
    """
    composer = _Composer(text, problems)
    try:
        for event in yaml.parse(text.text, Loader=PARSER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        from orun.pipeline import syntax  # lazy: only for errors

        syntax.report(error, text, problems)
        return None
    except _Unusable:
        return None
    return composer.root


class _Unusable(Exception):
    """End of a document that cannot be used; the problem is already noted."""


@dataclass
class _Open:
    """A list or mapping whose end has not been read yet."""

    span: Span
    anchor: str | None
    is_map: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merged: dict[str, Entry] = field(default_factory=dict)
    merges: Span | None = None  # position of the merge key
    key: Scalar | None = None

    def close(self) -> Node:
        return Map({**self.merged, **self.entries}, self.span) if self.is_map else List(tuple(self.items), self.span)


class _Composer:
    def __init__(self, text: Text, problems: Problems) -> None:
        self.text = text
        self.problems = problems
        self.root: Node | None = None
        self.open: list[_Open] = []
        self.anchors: dict[str, Node] = {}
        self.documents = 0
        self.size = 0

    def take(self, event: yaml.Event) -> None:
        """Handle one event of the parser."""
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._build_scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._resolve_alias(event), None)
        elif isinstance(event, yaml.CollectionStartEvent):
            span = self._build_span(event)
            self._refuse_tag(event, span)
            if len(self.open) >= MAX_DEPTH:
                self._fail(span, f"lists and mappings are nested more than {MAX_DEPTH} deep")
            self.open.append(_Open(span, event.anchor, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.open.pop()
            node = done.close()
            if node.size > MAX_SIZE:
                self._fail(node.span, f"with its aliases written out, this holds more than {MAX_SIZE} values")
            if node.depth > MAX_DEPTH:
                self._fail(node.span, f"with its aliases written out, this is nested more than {MAX_DEPTH} deep")
            self._add(node, done.anchor)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._fail(self._build_span(event), "a second YAML document", expected="one pipeline to a file")

    def _build_scalar(self, event: yaml.ScalarEvent) -> Scalar:
        span = self._build_span(event)
        self._refuse_tag(event, span)
        if "\0" in event.value:  # from an escape in double quotes; no path or name can contain it
            self.problems.add(span, "the text holds a NUL character", expected="text without \\0")
            return Scalar("", "", span, self.text.file, broken=True)
        if not event.implicit[0]:  # quoted, or a block of text
            return Scalar(event.value, event.value, span, self.text.file)
        try:
            return Scalar(resolve(event.value), event.value, span, self.text.file)
        except ValueError as error:
            self.problems.add(span, str(error), expected="a finite number, at most 1.8e308")
            return Scalar(0, event.value, span, self.text.file, broken=True)

    def _resolve_alias(self, event: yaml.AliasEvent) -> Node:
        span = self._build_span(event)
        name = str(event.anchor)
        if any(waiting.anchor == name for waiting in self.open):
            self._fail(span, f"the anchor '&{name}' refers to itself")
        if name not in self.anchors:
            self._fail(
                span,
                f"there is no anchor '&{name}' before this",
                suggestion=find_closest(name, self.anchors),
                hint="quote text that begins with *",
            )
        return self.anchors[name]

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        top = self.open[-1] if self.open else None
        if top and top.is_map and top.key is None:
            if not isinstance(node, Scalar):
                self._fail(node.span, "a list or mapping cannot be a key", expected="`key: value`")
            top.key = node
            return
        self.size += 1
        if self.size > MAX_SIZE:
            self._fail(node.span, f"the file holds more than {MAX_SIZE} values")
        if top is None:
            self.root = node
        elif top.key is None:
            top.items.append(node)
        else:
            self._set(top, top.key, node)
            top.key = None

    def _set(self, top: _Open, key: Scalar, value: Node) -> None:
        if key.broken:
            return
        if key.text == MERGE:
            self._merge(top, key.span, value)
        elif key.text in top.entries:
            first = top.entries[key.text].key.line
            self.problems.add(key.span, f"{key.text!r} is set twice", expected=f"one {key.text!r}; line {first} has it")
        else:
            top.entries[key.text] = Entry(key.span, value)

    def _merge(self, top: _Open, key: Span, value: Node) -> None:
        """Merge what `<<: *anchor` brings in; keys of the mapping itself and of earlier merges win."""
        if top.merges:
            self.problems.add(
                key,
                f"{MERGE!r} is set twice",
                expected=f"one {MERGE!r}; line {top.merges.line} has it",
                hint=f"a list merges several mappings: `{MERGE}: [*first, *second]`",
            )
        top.merges = key
        for node in value.items if isinstance(value, List) else (value,):
            if isinstance(node, Map):
                top.merged = {**node.entries, **top.merged}
            else:
                self.problems.add(node.span, "'<<' merges mappings", expected="an alias of a mapping, as in <<: *base")

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, span: Span) -> None:
        if event.tag:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.problems.add(span, f"the tag {tag} has no meaning here", hint="quote text that begins with !")

    def _build_span(self, event: Any) -> Span:  # its marks are typed as optional, but always set
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if end.line == start.line else len(self.text.text)
        return self.text.build_span(start.line + 1, start.column + 1, width)

    def _fail(self, span: Span, message: str, *, expected: str = "", suggestion: str = "", hint: str = "") -> NoReturn:
        self.problems.add(span, message, expected=expected, suggestion=suggestion, hint=hint)
        raise _Unusable
