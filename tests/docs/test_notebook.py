"""The notebook of the docs: without outputs, and its cells run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "notebook.ipynb"


def cells() -> list[dict[str, Any]]:
    """The cells of code."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_has_no_outputs_and_good_code() -> None:
    for cell in cells():
        assert (cell["execution_count"], cell["outputs"]) == (None, [])
        ast.parse("".join(cell["source"]))


@pytest.mark.slow
def test_the_cells_run(tmp_path: Path) -> None:
    code = "\n\n".join("".join(cell["source"]) for cell in cells())
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert "int8 run" in lines
    assert "True ()" in lines
    assert (tmp_path / "report.html").is_file()
