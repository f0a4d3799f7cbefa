"""Inspection in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.scaffold.inspection_process import declare_data, read_label_kind
from orun.scaffold.model_facts import ColumnFact, ModelFacts
from tests.thin import mostly_slow


def test_an_estimator_of_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its facts are more than an argument of a command can hold."""
    monkeypatch.chdir(tmp_path)
    names = [f"reading_of_the_sensor_in_the_upper_left_corner_{number}" for number in range(2500)]
    Path("table.csv").write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")
    facts = ModelFacts("sklearn", "wide.joblib", columns=tuple(ColumnFact(name) for name in names))
    assert declare_data("table.csv", tmp_path, facts) == "table.csv"


@pytest.mark.parametrize(
    ("labels", "kind"),
    mostly_slow(
        [
            ("np.zeros((2, 12), np.float32)", "numbers"),
            ("np.array([0.5, 1])", "numbers"),
            ("np.array([0, 1])", "classes"),
            ("np.array([[0, 1], [1, 0]])", "other"),  # of each token
            ("np.array(['a', 'b'])", "classes"),
            ("['a', 'b']", "classes"),
            ("[{'xyxy': [0, 0, 1, 1]}, {}]", "other"),
            ("None", ""),
        ],
        ("np.array([0, 1])", "classes"),
        ("[{'xyxy': [0, 0, 1, 1]}, {}]", "other"),
    ),
)
def test_what_the_labels_of_a_function_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code = f"def test():\n    return orun.Dataset({{'x': np.ones((2, 3))}}, {labels})\n"
    Path("data.py").write_text(f"import numpy as np\nimport orun\n\n\n{code}")
    assert read_label_kind("data.py:test", "", ["x"]) == kind


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (
            "orun.Dataset({'y': np.ones((2, 3)), 'z': np.ones(2)})",
            """\
data.py:test has no values for x, which the model takes
  it has y, z
  hint: name the arrays of the dataset after the model's inputs""",
        ),
        (
            "{'x': np.ones((2, 3))}",
            """\
data.py:test must return an orun.Dataset, not a dict
  hint: wrap the arrays: orun.Dataset({'input name': array})""",
        ),
    ],
)
def test_a_function_returns_the_inputs_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.py").write_text(f"import numpy as np\nimport orun\n\n\ndef test():\n    return {returned}\n")
    with pytest.raises(UsageError) as refusal:
        read_label_kind("data.py:test", "", ["x"])
    assert str(refusal.value) == problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "kind"),
    [("[[7, 9], [0, 1]]", "numbers"), ("[[1, 0], [0, 1]]", "other"), ("[[7], [9]]", "other")],
)
def test_integers_for_each_score_are_a_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str, kind: str
) -> None:
    """Sold pieces, for each step of the forecast; flags are of several classes."""
    monkeypatch.chdir(tmp_path)
    code = f"def test():\n    return orun.Dataset({{'x': np.ones((2, 3))}}, np.array({labels}))\n"
    Path("data.py").write_text(f"import numpy as np\nimport orun\n\n\n{code}")
    assert read_label_kind("data.py:test", "", ["x"], scores=2) == kind


@pytest.mark.slow
def test_what_the_labels_of_a_table_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,price,label,name\n1,1.5,0,b\n2,2.5,1,c\n")
    assert read_label_kind("table.csv", "price", []) == "numbers"
    assert read_label_kind("table.csv", "label", []) == "classes"
    assert read_label_kind("table.csv", "name", []) == "classes"
