from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.stages._graph.agreement import Agreement, Tolerance, answers, check, difference, session
from orun.stages._graph.feeds import Case
from orun.stages.contract import Context
from tests.stages.models import ADD, parse
from tests.stages.support import artifact, run_stage

Array = NDArray[Any]
TIGHT = Tolerance(1e-3, 1e-2)
CASES = [Case("some values at n=2", {"n": 2}, {"x": np.ones((2, 3), np.float32)})]


def context(folder: Path) -> Context:
    return Context("stage", {}, folder, folder, None, 0, None, None, lambda: logging.getLogger("test"), lambda *_: None)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def test_within_tolerance() -> None:
    assert difference(floats(100, 0), floats(101, 0.0005), TIGHT) == ("", 1.0)


def test_beyond_tolerance() -> None:
    problem, error = difference(floats(1, 2, 3), floats(1, 2.5, 3.25), TIGHT)
    assert problem == (
        "2 of 3 values are further off than 0.001 + 0.01 x |reference|; the worst is 2.5 instead of 2 at [1]"
    )
    assert error == 0.5


def test_what_is_not_finite() -> None:
    nan, inf = float("nan"), float("inf")
    assert difference(floats(1, 2), floats(nan, inf), TIGHT) == ("2 of 2 values are not finite", 0.0)
    assert difference(floats(1, 2), floats(nan, 2), None) == ("1 of 2 values are not finite", 0.0)
    assert difference(floats(nan, inf), floats(nan, inf), TIGHT) == ("", 0.0)
    assert difference(floats(inf, 1), floats(-inf, 1), TIGHT) == ("values that are not finite differ", 0.0)


def test_shapes_and_types_are_part_of_it() -> None:
    assert difference(floats(1, 2), floats(1), None)[0] == "float32[1] instead of float32[2]"
    assert difference(floats(1), np.array([1.0]), None)[0] == "float64[1] instead of float32[1]"


def test_integers_are_equal_or_not() -> None:
    right, wrong = np.array([1, 2, 3]), np.array([1, 2, 4])
    assert difference(right, wrong, TIGHT) == ("1 of 3 values differ", 0.0)
    assert difference(right, wrong, None) == ("", 0.0)
    assert difference(np.array(["a"]), np.array(["a"]), TIGHT) == ("", 0.0)


def test_nothing_to_compare() -> None:
    assert difference(floats(), floats(), TIGHT) == ("", 0.0)


def test_a_session_takes_what_the_model_takes(tmp_path: Path) -> None:
    model = session(artifact(tmp_path, parse(ADD)) / "model.onnx", ["y"])
    (result,) = model({"x": np.zeros((1, 3), np.float32), "other": np.zeros(1)})
    assert result.tolist() == [[1, 1, 1]]


def test_a_disagreement_names_output_case_and_way_out(tmp_path: Path) -> None:
    agreement = Agreement("the new model", "the old model", ["y"], TIGHT, "do something")
    with pytest.raises(StageFailed) as caught:
        check(context(tmp_path), agreement, CASES, [[np.ones((2, 3))]], lambda _: [np.full((2, 3), 2.0)])
    assert caught.value.stage == "stage"
    assert str(caught.value) == (
        "the new model disagrees with the old model in output 'y'\n"
        "  6 of 6 values are further off than 0.001 + 0.01 x |reference|; the worst is 2 instead of 1 at [0, 0]\n"
        "  for some values at n=2\n"
        "  hint: do something"
    )


def test_the_largest_error_is_the_metric(tmp_path: Path) -> None:
    agreement = Agreement("the new model", "the old model", ["y", "z"], TIGHT, "")
    expected = [[np.ones(3), np.ones(2)]]
    found = check(context(tmp_path), agreement, CASES, expected, lambda _: [np.ones(3), np.full(2, 1.0005)])
    assert found.value == pytest.approx(0.0005)
    assert (found.better, found.noise) == ("lower", "none")


def test_a_model_that_cannot_run_a_case(tmp_path: Path) -> None:
    model = session(artifact(tmp_path, parse(ADD)) / "model.onnx", ["y"])
    case = Case("random values at n=2, m=4", {}, {"x": np.ones((2, 4), np.float32)})
    with pytest.raises(StageFailed) as caught:
        answers(context(tmp_path), "the model before it", model, [case])
    assert caught.value.what == "the model before it cannot run random values at n=2, m=4"
    assert "index: 1 Got: 4 Expected: 3" in caught.value.why
    assert caught.value.hint == (
        "say which sizes the axes can take, `dims: {axis: [16, 32]}`, or give inputs, `inputs: file.py:function`"
    )


RESHAPE = """
<ir_version: 9, opset_import: ["" : 20]>
reshape (float[n, 4] x, int64[2] shape) => (float[a, b] y) { z = Identity (x) y = Reshape (z, shape) }
"""
DATA = """
import numpy as np
from orun.measure.dataset import Dataset

def pairs():
    return Dataset({"x": np.ones((2, 4), np.float32), "shape": np.array([[-1, 2], [4, 1]])})
"""


def test_inputs_of_the_users_own_where_made_up_ones_cannot_be(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(RESHAPE))
    (tmp_path / "data.py").write_text(DATA)
    with pytest.raises(StageFailed) as caught:
        run_stage("optimize/simplify", tmp_path, inputs={"model": before})
    assert caught.value.what == "the model before it cannot run random values at n=1"
    made = run_stage("optimize/simplify", tmp_path, {"inputs": "data.py:pairs"}, inputs={"model": before})
    assert made.value("max_abs_error") == 0
    assert "on 2 inputs" in made.log


SCALED = """
<ir_version: 9, opset_import: ["" : 20]>
scaled (float[n, 3] x, float factor) => (float[n, 3] y) { z = Identity (x) y = Mul (z, factor) }
"""


def test_a_scalar_of_a_dataset(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((2, 3), np.float32), factor=np.array([2, 3], np.float32))
    before = artifact(tmp_path, parse(SCALED))
    made = run_stage("optimize/simplify", tmp_path, {"inputs": {"path": "data.npz"}}, inputs={"model": before})
    assert "on 2 inputs" in made.log


SPLIT = """
<ir_version: 9, opset_import: ["" : 20]>
split (float[5, 3] x) => (seq(float[a, 3]) y)
{
  z = Identity (x)
  two = Constant <value = int64 {2}> ()
  y = SplitToSequence <axis = 0> (z, two)
}
"""


def test_a_sequence(tmp_path: Path) -> None:
    made = run_stage("optimize/simplify", tmp_path, inputs={"model": artifact(tmp_path, parse(SPLIT))})
    assert made.value("max_abs_error") == 0
    right = [floats(1, 2), floats(3)]
    assert difference(right, [floats(1, 2)], TIGHT) == ("1 values instead of 2", 0.0)
    assert difference(right, [floats(1, 2), floats(3, 4)], TIGHT)[0] == "float32[2] instead of float32[1]"
