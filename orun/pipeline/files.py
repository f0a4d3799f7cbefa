"""Loader of a pipeline file and the files that it extends, as one tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from orun.errors import PipelineError, UsageError
from orun.fs.observed_state import FILE, observe_presence
from orun.fs.os_errors import quote
from orun.pipeline import text
from orun.pipeline.compose import compose
from orun.pipeline.nodes import MAX_SIZE, Entry, List, Map, Node, Scalar, describe, find_repeated
from orun.pipeline.problems import Problems
from orun.text.suggestions import find_similar_path, format_choices, show_path

EXTENDS = "extends"
BASELINE = ".baseline.json"  # ending of the name of the baseline beside a pipeline file
MAX_CHAIN = 32  # length of a chain of files that extend one another
MAX_FILES = 256  # files that are read
MOST = 2  # files that a message names for a folder
WRITE = "to write one for a model: orun init MODEL"
EXPECTED = "a mapping with name, vars, targets and stages"


class Files:
    """Reader of pipeline files, which merges each over the files that it extends."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.digests: dict[str, str] = {}  # BLAKE3 digest of every file that was read, by absolute path
        self._trees: dict[Path, Map | None] = {}  # merged trees by file
        self._read = 0  # number of files read
        self._size = 0  # number of values in them

    def read(self, file: Path) -> Map | None:
        """Return the merged tree of a pipeline file, without `extends`; None when one of its files cannot be used.

        Raises:
            UsageError: when there is no such file, or it is a baseline.
        """
        if file.name.endswith(BASELINE) and observe_presence(file) == FILE:
            stem = file.name.removesuffix(BASELINE)
            pipelines = [file.with_name(stem + ending) for ending in (".yaml", ".yml")]
            pipeline = show_path(str(next((path for path in pipelines if observe_presence(path)), pipelines[0])))
            raise UsageError(f"{show_path(str(file))} is the baseline of {pipeline}", hint=f"orun {quote(pipeline)}")
        try:
            return self._load_tree(file, ())
        except OSError as error:
            raise _build_error(file, error) from error

    def _load_tree(self, file: Path, above: tuple[Path, ...]) -> Map | None:
        """Return a file merged over the files that it extends; each file is merged once."""
        if file not in self._trees:
            self._trees[file] = self._merge_layers(file, above)
        return self._trees[file]

    def _merge_layers(self, file: Path, above: tuple[Path, ...]) -> Map | None:
        own = self._load_own(file)
        if own is None:
            return None
        extends = own.entries.get(EXTENDS)
        layers = (
            [self._load_base(item, file, (*above, file)) for item in self._list_extended(extends)] if extends else []
        )
        tree = own.with_entries({key: entry for key, entry in own.entries.items() if key != EXTENDS})
        for layer in reversed(layers):
            if layer is None:
                return None
            tree = cast("Map", merge(layer, tree))
        return tree

    def _load_own(self, file: Path) -> Map | None:
        try:
            source = text.read(file)
        except PipelineError as error:
            self.problems.extend(error.problems)
            return None
        self.digests[source.file] = source.digest
        self._read += 1
        before = len(self.problems)
        root = compose(source, self.problems)
        if isinstance(root, Map):
            self._size += root.size
            if self._size > MAX_SIZE:
                self.problems.add(root.span, f"the files that are extended hold more than {MAX_SIZE} values in all")
                self.problems.check()
            return root
        at = root.span if root else source.build_span(1, 1)
        if root is None or (isinstance(root, Scalar) and not root.text):
            if len(self.problems) == before:
                self.problems.add(at, "the file is empty", expected=EXPECTED, hint="orun stages")
        else:
            self.problems.add(at, f"the file holds {describe(root)}", expected=EXPECTED)
        return None

    def _list_extended(self, entry: Entry) -> tuple[Scalar, ...]:
        """Return the paths below `extends`."""
        items = entry.value.items if isinstance(entry.value, List) else (entry.value,)
        named = tuple(item for item in items if isinstance(item, Scalar) and isinstance(item.value, str) and item.text)
        for twice in find_repeated(named):
            self.problems.add(twice.span, f"{twice.text!r} is named twice", expected="each file once")
        if len(named) < len(items):
            wrong = next(item for item in items if item not in named)
            span = wrong.span if isinstance(wrong, Scalar) and wrong.is_written else entry.key
            self.problems.add(
                span,
                f"'{EXTENDS}' cannot be {describe(wrong)}",
                expected="the path of a pipeline file, or a list of them",
            )
        return named

    def _load_base(self, item: Scalar, file: Path, above: tuple[Path, ...]) -> Map | None:
        base = Path(os.path.normpath(file.parent / item.text))
        if base in above:
            loop = " -> ".join(path.name for path in (*above[above.index(base) :], base))
            self.problems.add(item.span, f"these files extend one another in a loop: {loop}")
            return None
        if len(above) >= MAX_CHAIN:
            self.problems.add(item.span, f"more than {MAX_CHAIN} files extend one another")
            return None
        if self._read >= MAX_FILES:
            self.problems.add(item.span, f"more than {MAX_FILES} files are extended")
            self.problems.check()
        try:
            return self._load_tree(base, above)
        except OSError as error:
            message = f"cannot read {item.text!r}: {error.strerror}"
            add_missing(self.problems, item, base, message, "the path of a pipeline file, relative to this one")
            return None


def merge(base: Node, top: Node) -> Node:
    """Return a tree merged over another: mappings key by key; any other value replaces."""
    if not (isinstance(base, Map) and isinstance(top, Map)):
        return top
    merged = dict(base.entries)
    for key, entry in top.entries.items():
        below = base.get(key)
        merged[key] = Entry(entry.key, merge(below, entry.value)) if below else entry
    return Map(merged, top.span)


def add_missing(problems: Problems, node: Scalar, path: Path, message: str, expected: str) -> None:
    """Add a path that cannot be read to the problems, with the path that was probably meant."""
    problems.add(node.span, message, expected=expected, suggestion=find_similar_path(path, node.text))


def _build_error(file: Path, error: OSError) -> UsageError:
    if file.is_dir():
        inside = sorted(os.path.relpath(path) for path in file.glob("*.y*ml"))
        return UsageError(
            f"cannot read the pipeline file {os.path.relpath(file)}: {error.strerror}",
            why=f"expected a file, such as {format_choices(inside[:MOST])}" if inside else "",
            hint=f"orun validate {quote(inside[0])}" if inside else WRITE,
        )
    typed, there = os.path.relpath(file), os.path.lexists(file)
    meant = "" if there else find_similar_path(file, typed, (".yaml", ".yml")) or _find_below(file)
    return UsageError(
        f"cannot read the pipeline file {typed}: {error.strerror}",
        why=f"did you mean {meant}?" if meant else "",
        hint=f"ls -l {quote(typed)}" if there else f"orun validate {quote(meant)}" if meant else WRITE,
    )


def _find_below(file: Path) -> str:
    """Return the path of a file of the same name in a folder right below this one."""
    folders = sorted(path for path in file.parent.glob("[!.]*") if path.is_dir())
    return next(
        (os.path.relpath(folder / file.name) for folder in folders if observe_presence(folder / file.name) == FILE), ""
    )
