"""The first tutorial prints what its page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .test_docs import BLOCK, DOCS, NAMED

ACCURACY = re.compile(r"^  accuracy:\n(?:.+\n)+", re.MULTILINE)  # the stage in model.yaml
BUSY = re.compile(r"^(planning|reading) |^\S+ +waiting for ")  # of a machine that is busy
SLOWER = "note: the release is slower"  # where the processor has no instructions for 8 bits
FIGURE = re.compile(r"-?\d[\d.]*( (ns|µs|ms|s|min|kB|MB|%)(?!\w))?")


def count_words(text: str) -> Counter[str]:
    """The words of an output without figures: cells of a table are folded by the width of these."""
    lines = [line for line in text.splitlines() if not BUSY.match(line) and not line.startswith(SLOWER)]
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", "\n".join(lines))
    return Counter(FIGURE.sub("N", text).split())


@pytest.mark.slow
def test_the_first_release_prints_what_its_page_shows(tmp_path: Path) -> None:
    """Lines were left out of what the page shows."""
    pipeline, printed, compared = tmp_path / "model.yaml", "", 0
    for language, content in BLOCK.findall((DOCS / "tutorials" / "first-release.md").read_text(encoding="utf-8")):
        if named := NAMED.match(content):
            (tmp_path / named[1]).write_text(content, encoding="utf-8")
        elif language == "sh" and not content.startswith("pip "):
            line = shlex.split(content)
            program = [sys.executable] if line[0] == "python" else [sys.executable, "-m", "orun"]
            printed = subprocess.check_output([*program, *line[1:]], cwd=tmp_path, stderr=subprocess.STDOUT, text=True)
        elif ACCURACY.match(content):
            text = pipeline.read_text(encoding="utf-8").replace("data: null", "data: model_data.py:examples")
            pipeline.write_text(ACCURACY.sub(content, text), encoding="utf-8")
        elif language == "text":
            assert count_words(printed) == count_words(content)
            compared += 1
    assert compared == 4
