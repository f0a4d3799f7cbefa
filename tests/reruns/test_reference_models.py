"""A reference of another framework is measured again when its code changes, whatever the exported model is."""

from __future__ import annotations

from pathlib import Path

import pytest

import orun
from tests.facts import describe_reasons
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  import:
    uses: convert/sklearn
    with: {model: model.py:fitted, data: model.py:rows}
  onnx:
    uses: measure/accuracy
    needs: {model: import, reference: import}
    with: {metrics: [relative], dataset: data.py:rows}
  sklearn:
    uses: measure/accuracy
    needs: {model: import, reference: import}
    with: {metrics: [relative], dataset: data.py:rows, reference_runtime: sklearn}
    gate: {relative: {max: 0.1%}}
"""
DATA = """
import numpy as np
import orun

X = np.arange(24, dtype=np.float32).reshape(8, 3)

def rows():
    return orun.Dataset({"X": X})
"""
MODEL = """
from sklearn.linear_model import LinearRegression

from data import X, rows
from slopes import SLOPES

def fitted():
    return LinearRegression().fit(X, X @ SLOPES)
"""


@pytest.mark.slow  # its part of the key is tried in tests/planning/test_provenance.py
def test_code_that_exports_the_same_model(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("data.py", DATA)
    project.write("model.py", MODEL)
    project.write("slopes.py", "SLOPES = [1.0, 2.0, 3.0]\n")
    result = project.run()
    assert built(result) == ["import", "onnx", "sklearn"]
    assert [verdict.outcome for verdict in result.verdicts] == ["passed"]
    (note,) = result["sklearn"].notes
    assert note.startswith("the reference is the model that import converts, in scikit-learn ")
    assert built(project.run()) == []
    project.edit("slopes.py", "3.0]", "3.0, ][:3]")
    assert built(project.run(to=["import"])) == ["import"]
    steps = orun.plan(project.folder / "pipeline.yaml", store=project.store).steps
    assert {step.stage.id: describe_reasons(step.reasons) for step in steps} == {
        "import": ("up to date",),
        "onnx": ("up to date",),
        "sklearn": ("the history of import changed",),
    }
