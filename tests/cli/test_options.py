"""Words that several verbs understand, and their completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orun.cli.crash import redacted
from orun.cli.options import parse_overrides


def test_overrides() -> None:
    assert parse_overrides(["a.b=1", "c=", "a.b=2", "d=x=y"]) == {"a.b": "2", "c": "", "d": "x=y"}


def test_values_of_set_are_kept_out_of_logs() -> None:
    words = ["run", "--set", "vars.token=s3cret", "--set=vars.key=k=v", "--set", "oops", "--jobs=2"]
    assert redacted(words) == ["run", "--set", "vars.token=***", "--set=vars.key=***", "--set", "oops", "--jobs=2"]


def completed(folder: Path, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    typed = {"COMP_WORDS": " ".join(["orun", *words]), "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **typed, "_ORUN_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "orun"], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return [entry.removeprefix("plain,") for entry in done.stdout.split()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pl"], ["plan"]),
        (["plan", "w"], ["words.yaml"]),
        (["plan", "sub/"], ["sub/inner.yml"]),
        (["plan", "nowhere/"], []),
        (["plan", "words.yaml", "--on"], ["--only"]),
        (["plan", "words.yaml", "--only", "c"], ["count"]),
        (["words.yaml", "--only", "w"], ["write"]),
        (["explain", "words.yaml", "c"], ["count"]),
        (["explain", "broken.yaml", "c"], []),
        (["stages", "quantize/d"], ["quantize/dynamic", "quantize/debug"]),
    ],
)
def test_completion(project: Path, words: list[str], expected: list[str]) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "inner.yml").touch()
    (project / "broken.yaml").write_text("stages: []\n")
    assert completed(project, *words) == expected
