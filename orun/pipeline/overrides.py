"""Overrides: values of `--set path=value`, which replace values of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orun.pipeline.compose import compose
from orun.pipeline.nodes import Entry, Map, Node, Scalar, Span, describe
from orun.pipeline.problems import Problems
from orun.pipeline.text import UNPRINTABLE, Text
from orun.text.positions import OVERRIDE
from orun.text.suggestions import find_closest, format_choices

TOP = ("name", "vars", "seed", "targets", "stages")
IN_THE_FILE = ("extends", "secrets", "ship", "environments")  # keys that say what the file is: not of `--set`
# Names below these keys must be in the file already: a new stage or variable would be a typo.
CLOSED: Mapping[str, str] = {"vars": "variable", "targets": "target", "stages": "stage"}
DOTTED_BELOW = 3  # `stages.NAME.gate` and `targets.NAME.session`


def apply(root: Map, overrides: Mapping[str, str], problems: Problems) -> Map:
    """Return the tree with values replaced by these YAML values, by dotted path."""
    for number, (path, written) in enumerate(overrides.items(), start=1):
        root = _Override(number, path, written, problems).apply(root)
    return root


class _Override:
    def __init__(self, number: int, path: str, written: str, problems: Problems) -> None:
        self.number = number
        self.path = path
        self.source = f"{path}={written}"
        self.written = written
        self.problems = problems

    def apply(self, root: Map) -> Map:
        value = self._parse_value()
        keys = _split(self.path, root)
        if value is None or not self._is_known(keys, root):
            return root
        return self._set(root, keys, 0, value)

    def _parse_value(self) -> Node | None:
        """Return the value; its columns count in `path=value`, and its line is the number of the override."""
        if control := UNPRINTABLE.search(self.written):
            span = Span(OVERRIDE, self.number, len(self.path) + 2 + control.start(), 1, "")  # unfit to be shown
            self.problems.add(span, f"the value of {self.path!r} holds the control character {control[0]!r}")
            return None
        above = self.number - 1
        padded = "\n" * above + " " * (len(self.path) + 1) + self.written
        source = Text(OVERRIDE, "", padded, (*[""] * above, self.source))
        before = len(self.problems)
        value = compose(source, self.problems)
        if value is None and len(self.problems) == before:  # empty text after the `=`
            return Scalar(None, "", self._build_span(0, [self.path]), OVERRIDE)
        return value

    def _is_known(self, keys: Sequence[str], root: Map) -> bool:
        if keys[0] in IN_THE_FILE:
            self._note_unknown(0, keys, f"{keys[0]!r} stands in the file alone", TOP, f"write it there: {keys[0]}: ...")
            return False
        if keys[0] not in TOP:
            hint = "a parameter of a stage: --set stages.STAGE.with.NAME=VALUE"
            self._note_unknown(0, keys, f"{keys[0]!r} is not a key of a pipeline file", TOP, hint)
            return False
        names = root.map(keys[0]).entries
        closed = CLOSED.get(keys[0])
        if closed is None or len(keys) == 1 or keys[1] in names:
            return True
        self._note_unknown(1, keys, f"there is no {closed} {keys[1]!r} in the file", names)
        return False

    def _set(self, node: Map, keys: Sequence[str], index: int, value: Node) -> Map:
        key = keys[index]
        span = self._build_span(index, keys)
        if index == len(keys) - 1:
            return node.with_entries({**node.entries, key: Entry(span, value)})
        below = node.get(key) or Map({}, span)
        if not isinstance(below, Map):
            prefix = ".".join(keys[: index + 1])
            self.problems.add(
                self._build_span(index + 1, keys),
                f"{prefix} is {describe(below)}, which has no key {keys[index + 1]!r}",
                expected=f"the whole value: --set {prefix}=...",
            )
            return node
        entry = node.entries.get(key)
        changed = Entry(entry.key if entry else span, self._set(below, keys, index + 1, value))
        return node.with_entries({**node.entries, key: changed})

    def _note_unknown(
        self, index: int, keys: Sequence[str], message: str, known: Sequence[str] | Mapping[str, Entry], hint: str = ""
    ) -> None:
        near = find_closest(keys[index], known)
        self.problems.add(
            self._build_span(index, keys),
            message,
            expected=format_choices(known),
            suggestion=near,
            hint="" if near else hint,
        )

    def _build_span(self, index: int, keys: Sequence[str]) -> Span:
        column = 1 + sum(len(key) + 1 for key in keys[:index])
        return Span(OVERRIDE, self.number, column, max(1, len(keys[index])), self.source)


def _split(path: str, root: Map) -> list[str]:
    """Return the keys of a dotted path.

    A key with dots is taken whole if the file has it, and wherever all keys may have dots: metrics below `gate`
    (`cosine.min`) and configuration entries below `session`.
    """
    parts = path.split(".")
    keys: list[str] = []
    node: Node | None = root
    while parts:
        known = node.entries if isinstance(node, Map) else {}
        length = next((n for n in range(len(parts), 1, -1) if ".".join(parts[:n]) in known), 1)
        if length == 1 and len(keys) == DOTTED_BELOW:
            length = {"gate": len(parts) - 1, "session": len(parts)}.get(keys[-1], 1) or 1
        keys.append(".".join(parts[:length]))
        node = node.get(keys[-1]) if isinstance(node, Map) else None
        parts = parts[length:]
    return keys
