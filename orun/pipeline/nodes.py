"""Nodes of a YAML file: plain data in which every key and value has its position."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from orun.core.serialization import Record
from orun.core.source_location import Position

MAX_DEPTH = 50  # levels of nested lists and mappings
MAX_SIZE = 100_000  # values, with every alias and variable expanded
MAX_TEXT = 16 << 20  # letters in the texts with variables, expanded

Path = tuple[str | int, ...]


class Span(NamedTuple):
    """A stretch of one line of a file.

    Attributes:
        file, line, column: its start; line and column count from 1.
        width: its columns on that line.
        source: text of the line.
    """

    file: str
    line: int
    column: int
    width: int = 1
    source: str = ""

    @property
    def position(self) -> Position:
        """Position of its start."""
        return Position(self.file, self.line, self.column)

    def cut(self, start: int, width: int) -> Span:
        """Return a stretch of this one that begins `start` columns to the right."""
        return self._replace(column=self.column + start, width=width)


class Scalar(Record, frozen=True):
    """A text, number, boolean or null.

    Attributes:
        value: its value by YAML 1.2.
        text: its text in the file, which distinguishes `1.10` from `1.1`.
        span: its place, or the place of the expression that it came from.
        file: the file that wrote it; paths in it are relative to that file.
        via: the expression that it came from (`${vars.size}`); else empty.
        broken: whether a problem with it is already reported.
    """

    value: str | float | bool | None
    text: str
    span: Span
    file: str
    via: str = ""
    broken: bool = False
    size: ClassVar[int] = 1

    @property
    def is_written(self) -> bool:
        """Whether the file has any text for it, such as quotes, that a message can point at."""
        return bool(self.text) or self.value is not None

    depth: ClassVar[int] = 0


class List(Record, frozen=True, dict=True):
    """YAML sequence."""

    items: tuple[Node, ...]
    span: Span

    @functools.cached_property
    def size(self) -> int:
        """Number of its nodes, itself included."""
        return 1 + sum(item.size for item in self.items)

    @functools.cached_property
    def depth(self) -> int:
        """Levels of its nested lists and mappings, itself included."""
        return 1 + max((item.depth for item in self.items), default=0)


class Entry(Record, frozen=True):
    """Key of a mapping with its position, and its value."""

    key: Span
    value: Node


class Map(Record, frozen=True, dict=True):
    """YAML mapping in file order."""

    entries: Mapping[str, Entry]
    span: Span

    def get(self, key: str) -> Node | None:
        """Return the value of a key; None for a missing key."""
        entry = self.entries.get(key)
        return entry.value if entry else None

    def map(self, key: str) -> Map:
        """Return the mapping below a key; an empty mapping if there is none."""
        value = self.get(key)
        return value if isinstance(value, Map) else Map({}, self.span)

    def list_items(self, key: str) -> tuple[Node, ...]:
        """Return the items of the list below a key; none if there is no list."""
        value = self.get(key)
        return value.items if isinstance(value, List) else ()

    def with_entries(self, entries: Mapping[str, Entry]) -> Map:
        """Return this mapping with other entries."""
        return Map(entries, self.span)

    @functools.cached_property
    def size(self) -> int:
        """Number of its nodes, itself included."""
        return 1 + sum(entry.value.size for entry in self.entries.values())

    @functools.cached_property
    def depth(self) -> int:
        """Levels of its nested lists and mappings, itself included."""
        return 1 + max((entry.value.depth for entry in self.entries.values()), default=0)


Node = Scalar | List | Map


def to_plain(node: Node) -> Any:
    """Return the node as Python data, as in a file without variables: a literal `${` is `$${` again."""
    if isinstance(node, Map):
        return {key: to_plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, List):
        return [to_plain(item) for item in node.items]
    if isinstance(node.value, str) and not node.broken:
        return node.value.replace("${", "$${")
    return node.value


def list_scalars(node: Node) -> Iterator[Scalar]:
    """Yield every scalar in a node."""
    if isinstance(node, Scalar):
        yield node
        return
    children = node.items if isinstance(node, List) else tuple(entry.value for entry in node.entries.values())
    for child in children:
        yield from list_scalars(child)


def find_repeated(items: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the scalars of a list whose texts occur earlier in it."""
    before: set[str] = set()
    for item in items:
        if isinstance(item, Scalar) and isinstance(item.value, str) and item.text and not item.broken:
            if item.text in before:
                yield item
            before.add(item.text)


def find(root: Node, path: Path) -> tuple[Node, Span]:
    """Return the node at a path, and the place for a message: the key of a mapping or list, or the scalar."""
    node, span = root, root.span
    for step in path:
        if isinstance(node, Map) and isinstance(step, str):
            entry = node.entries[step]
            node, span = entry.value, entry.key
        elif isinstance(node, List) and isinstance(step, int):
            node = node.items[step]
            span = node.span
    return node, node.span if isinstance(node, Scalar) and node.is_written else span


def describe(node: Node) -> str:
    """Describe a node for a message: `'yes'`, `12`, `a list`, `empty`."""
    if isinstance(node, Map):
        return "a mapping" if node.entries else "an empty mapping"
    if isinstance(node, List):
        return "a list" if node.items else "an empty list"
    shown = repr(node.value) if isinstance(node.value, str) else node.text
    if node.value is None:
        shown = "empty" if not node.text else node.text
    return f"{shown} (from {node.via})" if node.via else shown
