"""Python files of a pipeline, parsed but never run."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from blake3 import blake3

from orun.core.serialization import Record
from orun.core.source_location import Position, Problem
from orun.errors import PipelineError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.text.suggestions import Unknown, find_closest, format_choices

Function = ast.FunctionDef | ast.AsyncFunctionDef
LINE_END = re.compile(r"\r\n?|\n")  # what Python counts as the end of a line; a form feed is none
EVERYTHING = "*"  # name in a file that imports all names of another module


class CodeFile(Record, frozen=True):
    """Parsed Python file: absolute path, BLAKE3 digest of the bytes, syntax tree and lines."""

    path: Path
    digest: str
    tree: ast.Module
    lines: tuple[str, ...]

    def build_problem(self, node: ast.AST, message: str, *, expected: str = "", suggestion: str = "") -> Problem:
        """Return an error at a node of the tree."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        source = self.lines[line - 1] if line <= len(self.lines) else ""
        end = getattr(node, "end_col_offset", start + 1) if getattr(node, "end_lineno", line) == line else None
        column, width = (  # the tree counts bytes
            len(source.encode()[part].decode(errors="replace")) for part in (slice(start), slice(start, end))
        )
        position = Position(str(self.path), line, column + 1)
        return Problem(position, message, source, max(1, width), expected=expected, suggestion=suggestion)

    def find_function(self, name: str) -> Function | None:
        """Return the top-level function of a name, the last if there are several."""
        nodes = [node for node in _iter_top_level(self.tree.body) if isinstance(node, Function) and node.name == name]
        return nodes[-1] if nodes else None

    def list_names(self) -> tuple[str, ...]:
        """Return all names that the file defines or imports at its top level, functions first."""
        bound = (name for node in _iter_top_level(self.tree.body) for name in _list_bound(node))
        return tuple(dict.fromkeys((*self.list_functions(), *bound)))

    def list_functions(self) -> tuple[str, ...]:
        """Return the names of the top-level functions."""
        return tuple(node.name for node in _iter_top_level(self.tree.body) if isinstance(node, Function))

    def require(self, name: str) -> None:
        """Require a name in the file.

        Raises:
            Unknown: when the file does not define it.
        """
        names = self.list_names()
        if name in names or EVERYTHING in names:
            return
        raise Unknown(
            f"{self.path.name} has no function {name!r}",
            expected=format_choices(self.list_functions()) or "a function; it has none",
            suggestion=find_closest(name, names),
        )


class CodeFiles:
    """Cache of parsed Python files."""

    def __init__(self) -> None:
        self._files: dict[Path, CodeFile | OSError | PipelineError] = {}

    @property
    def digests(self) -> dict[str, str]:
        """Digest of each file that could be read, by absolute path."""
        return {str(path): file.digest for path, file in self._files.items() if isinstance(file, CodeFile)}

    def get(self, path: Path) -> CodeFile:
        """Return the parsed file.

        Raises:
            OSError: when it cannot be read.
            PipelineError: when it is not Python; its location is in that file.
        """
        if path not in self._files:
            try:
                self._files[path] = parse(path)
            except (OSError, PipelineError) as error:
                self._files[path] = error
        file = self._files[path]
        if isinstance(file, Exception):
            raise file
        return file


def parse(path: Path) -> CodeFile:
    """Read and parse a Python file; see `CodeFiles.get` for what it raises."""
    data = read_bounded(path, TEXT_LIMIT)
    try:
        tree = ast.parse(data, filename=str(path))
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        lines = LINE_END.split(data.decode(encoding))
    except SyntaxError as error:
        raise PipelineError([_build_syntax_problem(path, error)]) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, wrong encoding, endless nesting
        why = error if isinstance(error, ValueError) else "its expressions are nested too deeply"
        position = Position(str(path), 1, 1)
        raise PipelineError([Problem(position, f"Python cannot parse this file: {why}")]) from error
    return CodeFile(path, blake3(data).hexdigest(), tree, tuple(lines))


def _build_syntax_problem(path: Path, error: SyntaxError) -> Problem:
    line, column = error.lineno or 1, error.offset or 1
    end = error.end_offset if error.end_lineno == error.lineno else None
    width = max(1, (end or column + 1) - column)
    source = (error.text or "").rstrip("\r\n")
    return Problem(Position(str(path), line, max(1, column)), f"Python cannot parse this: {error.msg}", source, width)


def _iter_top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, in order, including those in `if`, `try` and `with`."""
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Function | ast.ClassDef):
            continue
        blocks = [getattr(node, block, []) for block in ("body", "orelse", "finalbody")]
        blocks[1:1] = [handler.body for handler in getattr(node, "handlers", [])]
        pending.extend(reversed([statement for block in blocks for statement in block]))


def _list_bound(node: ast.stmt) -> list[str]:
    """Return the names that a statement binds."""
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []
