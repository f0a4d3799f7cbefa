"""A YAML file as plain data in which every key and value knows where it stands."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from orun.core.serialization import Record
from orun.core.source_location import Position

MAX_DEPTH = 50  # of lists and mappings in one another
MAX_SIZE = 100_000  # values, with every alias and variable written out
MAX_TEXT = 16 << 20  # letters in the texts that variables are a part of, written out

Path = tuple[str | int, ...]


class Span(NamedTuple):
    """A stretch of one line of a file.

    Attributes:
        file, line, column: where it begins; line and column count from 1.
        width: how many columns it takes on that line.
        source: the text of the line.
    """

    file: str
    line: int
    column: int
    width: int = 1
    source: str = ""

    @property
    def position(self) -> Position:
        """Where it begins."""
        return Position(self.file, self.line, self.column)

    def part(self, start: int, width: int) -> Span:
        """Return a stretch within this one, `start` columns to the right."""
        return self._replace(column=self.column + start, width=width)


class Scalar(Record, frozen=True):
    """A text, number, boolean or null.

    Attributes:
        value: what YAML 1.2 makes of it.
        text: as written, which keeps `1.10` apart from `1.1`.
        span: where it stands, or where the variable it came from is used.
        file: the file that wrote it, to which a path in it is relative.
        via: the expression that it came from (`${vars.size}`); else empty.
        broken: a problem was reported for it already.
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
        """Whether there is anything in the file, such as quotes, that a message can point at."""
        return bool(self.text) or self.value is not None

    depth: ClassVar[int] = 0


class List(Record, frozen=True, dict=True):
    """A YAML sequence."""

    items: tuple[Node, ...]
    span: Span

    @functools.cached_property
    def size(self) -> int:
        """Nodes in it, itself included."""
        return 1 + sum(item.size for item in self.items)

    @functools.cached_property
    def depth(self) -> int:
        """Levels of lists and mappings, itself included."""
        return 1 + max((item.depth for item in self.items), default=0)


class Entry(Record, frozen=True):
    """A key of a mapping: where it stands, and its value."""

    key: Span
    value: Node


class Map(Record, frozen=True, dict=True):
    """A YAML mapping in file order."""

    entries: Mapping[str, Entry]
    span: Span

    def get(self, key: str) -> Node | None:
        """Return the value of a key, or None when it is not there."""
        entry = self.entries.get(key)
        return entry.value if entry else None

    def map(self, key: str) -> Map:
        """Return the mapping below a key; an empty one when there is none."""
        value = self.get(key)
        return value if isinstance(value, Map) else Map({}, self.span)

    def with_entries(self, entries: Mapping[str, Entry]) -> Map:
        """This mapping with those entries in place of its own."""
        return Map(entries, self.span)

    @functools.cached_property
    def size(self) -> int:
        """Nodes in it, itself included."""
        return 1 + sum(entry.value.size for entry in self.entries.values())

    @functools.cached_property
    def depth(self) -> int:
        """Levels of lists and mappings, itself included."""
        return 1 + max((entry.value.depth for entry in self.entries.values()), default=0)


Node = Scalar | List | Map


def plain(node: Node) -> Any:
    """Return the node as Python data, as a file without variables would have it: a literal `${` is `$${` again."""
    if isinstance(node, Map):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, List):
        return [plain(item) for item in node.items]
    if isinstance(node.value, str) and not node.broken:
        return node.value.replace("${", "$${")
    return node.value


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield every scalar in a node."""
    if isinstance(node, Scalar):
        yield node
        return
    children = node.items if isinstance(node, List) else tuple(entry.value for entry in node.entries.values())
    for child in children:
        yield from scalars(child)


def repeated(items: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the texts of a list that stand in it before."""
    before: set[str] = set()
    for item in items:
        if isinstance(item, Scalar) and isinstance(item.value, str) and item.text and not item.broken:
            if item.text in before:
                yield item
            before.add(item.text)


def find(root: Node, path: Path) -> tuple[Node, Span]:
    """Return the node at a path, and where a message about it points: a mapping's or list's key, or the scalar."""
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
