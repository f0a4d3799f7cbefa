"""Requirements files of pip, with the files that they include."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from orun.core.source_location import Position, Problem, abridge
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.pipeline.text import detect_encoding

CONSTRAINT = ("-c", "--constraint")
INCLUDE = re.compile(r"(?P<option>-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-r)|(?<=-c))(?P<file>\S.*)")
COMMENT = re.compile(r"(?:^|\s)#")
# Requirements outside of package indexes: nobody would know their content.
LOCAL = re.compile(
    r"(-e\b|--editable\b|\.{0,2}/|file:|[A-Za-z0-9._-]+(\[[^\]]*\])?\s*@\s*file:|(?!\S*://)\S+\.(whl|tar\.gz|zip)$)"
)
MAX_CHAIN = 32  # length of a chain of files that include one another
MAX_FILES = 256  # that are read
NOT_ON_AN_INDEX = "an isolated environment cannot hold what is not on a package index"
ON_AN_INDEX = "packages with versions, or URLs"
EXPECTED = "a requirements file, its path relative to this one"


@dataclass
class Requirements:
    """Content of requirements files."""

    lines: list[str] = field(default_factory=list)  # without comments and line continuations
    constraints: list[str] = field(default_factory=list)  # lines of constraint files
    digests: dict[str, str] = field(default_factory=dict)  # of every file that was read, by its path
    problems: list[Problem] = field(default_factory=list)  # lines that no package index or file can serve
    _read: set[tuple[Path, bool]] = field(default_factory=set)

    def read(self, path: Path) -> None:
        """Add the content of a file.

        Raises:
            OSError: when it cannot be read.
            ValueError: when it is not UTF-8 text.
        """
        self._take(Path(os.path.normpath(path)), (), constrains=False)

    def _take(self, path: Path, above: tuple[Path, ...], *, constrains: bool) -> None:
        if (path, constrains) in self._read:
            return
        self._read.add((path, constrains))
        data = read_bounded(path, TEXT_LIMIT)
        if other := detect_encoding(data):
            raise ValueError(f"it is {other}: save it as UTF-8")
        text = data.decode("utf-8-sig")
        if "\0" in text:
            raise ValueError("it holds a NUL character")
        self.digests[str(path)] = blake3(data).hexdigest()
        for number, line in _iter_logical_lines(text):
            requirement = COMMENT.split(line, maxsplit=1)[0].strip()
            if include := INCLUDE.fullmatch(requirement):
                included = Path(os.path.normpath(path.parent / include["file"]))
                only = constrains or include["option"] in CONSTRAINT
                message, expected = self._read_included(included, include["file"], (*above, path), constrains=only)
                if message:
                    self.problems.append(_build_problem(path, number, line, include["file"], message, expected))
            elif LOCAL.match(requirement):
                self.problems.append(_build_problem(path, number, line, requirement, NOT_ON_AN_INDEX, ON_AN_INDEX))
            elif requirement:
                (self.constraints if constrains else self.lines).append(requirement)

    def _read_included(self, path: Path, written: str, above: tuple[Path, ...], *, constrains: bool) -> tuple[str, str]:
        """Add a file that another one includes; return the problem and the expectation if that is impossible."""
        if path == above[-1]:
            return "the requirements file includes itself", ""
        if path in above:
            loop = " -> ".join(file.name for file in (*above[above.index(path) :], path))
            return f"these requirements files include one another in a loop: {loop}", ""
        if len(above) >= MAX_CHAIN:
            return f"more than {MAX_CHAIN} requirements files include one another", ""
        if len(self._read) >= MAX_FILES:
            return f"more than {MAX_FILES} requirements files are included", ""
        try:
            self._take(path, above, constrains=constrains)
        except (OSError, ValueError) as error:
            return f"cannot read {written!r}: {explain_error(error)}", EXPECTED
        return "", ""


def _build_problem(path: Path, number: int, line: str, part: str, message: str, expected: str) -> Problem:
    return Problem(Position(str(path), number, line.find(part) + 1), abridge(message), line, len(part), expected)


def explain_error(error: OSError | ValueError) -> str:
    """Return why a file cannot be read: the system's own words for an error of the system."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "it is no text" if isinstance(error, UnicodeDecodeError) else str(error)


def _iter_logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line, joined at trailing backslashes, with the number of its first line."""
    first, parts = 1, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not parts:
            first = number
        parts.append((line.lstrip() if parts else line).removesuffix("\\"))
        if not line.endswith("\\"):
            yield first, "".join(parts)
            parts = []
    yield first, "".join(parts)
