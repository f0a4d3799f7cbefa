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


@pytest.mark.slow
def test_the_kernel_of_jupyter_runs_the_notebook(tmp_path: Path) -> None:
    """Each cell in turn, as a notebook shows it: the text of the pipeline, progress as lines, results as HTML."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    shown = {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    errors = [output.text for outputs in shown.values() for output in outputs if output.get("name") == "stderr"]
    assert [text for text in errors if "ConvergenceWarning" not in text] == []
    (result,) = [outputs for source, outputs in shown.items() if source.endswith("\nresult")]
    *progress, report = result
    assert "release" in "".join(output.text for output in progress)
    assert report.data["text/html"].startswith('<iframe title="model" sandbox srcdoc="')
    assert report.data["text/plain"].startswith("RunResult('model'")
