"""Why a stage is left out of a pipeline, short enough for a comment in it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from orun.core.run_record import StageResult
from orun.environment.python_path import PACKAGE
from orun.text.suggestions import show_path

LONGEST = 170  # letters: two lines of a comment, with the name of the stage
SHORTEST = 20  # letters of a cause
PREFIXES = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Non-zero status code returned while running .*? node\. .*?Status Message: "
    r"|Load model from \S+ failed: ?"
)
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:[^\s/:;,'\"()]+/)+[^\s/:;,'\"()]+")


def explain_failure(stage: StageResult) -> str:
    """Return what a stage that failed could not do, why, and what to do next."""
    assert stage.failure  # noqa: S101 - the caller has looked
    failure = stage.failure
    whys = [line.strip() for line in failure.why.splitlines() if line.strip()]
    whys = whys[: len(whys) - (failure.code is not None)]  # the last line says where that is
    refusal = [_strip_prefixes(line) for line in (failure.problem, *whys[:1])]
    advice = failure.advice.partition("\n")[0].rstrip(".")
    after = f". Next: {advice or f'orun stages {stage.uses}'}"
    width = LONGEST - len(after)
    if len(refusal[0]) + SHORTEST > width:
        return refusal[0] + after
    return textwrap.shorten(": ".join(refusal), width) + after


def is_in_users_code(stage: StageResult) -> bool:
    """Return whether the user's code raised the failure of a stage, and not orun's or a library that it calls."""
    code = stage.failure.code if stage.failure else None
    return code is not None and not Path(code.file).is_relative_to(PACKAGE)


def _strip_prefixes(text: str) -> str:
    """Return a message without ONNX Runtime's prefixes, and with paths as one would type them here."""
    return ABSOLUTE.sub(_shorten_path, PREFIXES.sub("", text)).strip().rstrip(".")


def _shorten_path(path: re.Match[str]) -> str:
    """Return a path below the working folder, or the name of a file elsewhere or in a folder that is gone."""
    relative = show_path(path[0])
    return relative if relative != path[0] and Path(relative).exists() else Path(path[0]).name
