"""The pipelines that begin in other frameworks: trained on real digits, converted, judged, released."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.acceptance.support import copy_pipelines, run_json

pytestmark = pytest.mark.slow

TENSORFLOW = pytest.mark.skipif(
    sys.version_info >= (3, 14) and find_spec("tensorflow") is None, reason="there is none for this Python"
)


@pytest.mark.parametrize(
    ("name", "judged", "stages"),
    [
        pytest.param("keras.yaml", "accuracy", ["train", "simplify", "int8", "accuracy", "release"], marks=TENSORFLOW),
        ("sklearn.yaml", "accuracy", ["linear", "forest", "accuracy", "check", "release"]),
    ],
)
def test_digits_are_recognized(tmp_path: Path, name: str, judged: str, stages: list[str]) -> None:
    folder = copy_pipelines(tmp_path)
    code, result = run_json(folder, name)
    assert (code, {stage["stage"] for stage in result["stages"]}) == (0, set(stages)), result
    assert not [gate for gate in result["verdicts"] if gate["outcome"] != "passed"]
    (accuracy,) = [stage for stage in result["stages"] if stage["stage"] == judged]
    assert accuracy["metrics"]["accuracy"]["value"] > 0.9
    assert accuracy["metrics"]["auc"]["value"] > 0.99
    code, again = run_json(folder, name)
    assert (code, {stage["outcome"] for stage in again["stages"]}) == (0, {"cached"})
