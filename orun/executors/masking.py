"""Masking of secrets in what stages print and report, before it is kept or shown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from mmap import PROT_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from orun.core.serialization import Record, replace
from orun.environment.secret_variables import Secrets
from orun.errors import OrunError, StageError
from orun.fs.durable import replace_file

if TYPE_CHECKING:
    from orun.executors.job import JobResult

MASK = "***"
SHORTEST = 6  # characters of a masked value: shorter ones would mask digits and common words everywhere
Error = TypeVar("Error", bound=OrunError)


class Mask(Record, frozen=True):
    """Replacement of secret values by `***`.

    Attributes:
        pattern: matches the values; None if no secret is set or long enough.
    """

    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, secrets: Secrets) -> Mask:
        """Return the mask for the secrets in this process's environment."""
        values = (value for name, value in os.environ.items() if name in secrets)
        forms = {form for value in values for form in _iter_forms(value) if len(form) >= SHORTEST}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        return cls(re.compile("|".join(map(re.escape, longest_first))) if forms else None)

    def hide_in_text(self, text: str) -> str:
        """Return a text with every secret masked."""
        return self.pattern.sub(MASK, text) if self.pattern else text

    def hide_in_error(self, error: Error) -> Error:
        """Mask the text of an error, in place."""
        error.problem, error.why, error.hint = map(self.hide_in_text, (error.problem, error.why, error.hint))
        if isinstance(error, StageError):
            texts = error.advice, error.commands, error.command
            error.advice, error.commands, error.command = map(self.hide_in_text, texts)
            error.code = error.code and replace(error.code, file=self.hide_in_text(error.code.file))
            error.settings = {name: self.hide_in_text(value) for name, value in error.settings.items()}
        error.args = (error.problem,)
        return error

    def hide_in_result(self, result: JobResult) -> JobResult:
        """Return a result with secrets masked in metric names and notes."""
        metrics = {self.hide_in_text(name): metric for name, metric in result.metrics.items()}
        return replace(result, metrics=metrics, notes=tuple(map(self.hide_in_text, result.notes)))

    def hide_in_bytes(self, data: bytes) -> bytes:
        """Return the bytes of a text with every secret masked."""
        return re.sub(os.fsencode(self.pattern.pattern), MASK.encode(), data) if self.pattern else data

    def hide_in_file(self, path: Path) -> None:
        """Mask secrets in a text file, rewriting it only if it holds any; OSError if it cannot be read or written."""
        if self.pattern is None or not path.exists() or path.stat().st_size == 0:
            return
        with path.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as content:  # it may be large
            if not re.search(os.fsencode(self.pattern.pattern), content):
                return
        replace_file(str(path), self.hide_in_bytes(path.read_bytes()), f"{path}.masked", sync=False)


def _iter_forms(value: str) -> Iterator[str]:
    """Yield the forms of a value in texts: whole, line by line (PEM keys), quoted for URLs, JSON and Python."""
    yield from (value, *map(str.strip, value.splitlines()), quote(value, safe="", errors="surrogateescape"))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
