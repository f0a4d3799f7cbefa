from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.stages._graph.agreement import check, run_cases
from orun.stages._graph.differences import Tolerance, compare_values
from orun.stages._graph.feeds import Case
from orun.stages._graph.leniency import Agreement
from orun.stages._graph.limits import Limit, Limits, build_limits, merge
from orun.stages._graph.processor import check_result
from orun.stages._graph.sessions import open_model
from tests.stages.models import ADD, parse
from tests.stages.support import artifact, make_context, run_stage

Array = NDArray[Any]
TIGHT = Tolerance(1e-3, 1e-2)
CASES = [Case("some values at n=2", {"n": 2}, {"x": np.ones((2, 3), np.float32)})]


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def test_within_tolerance() -> None:
    assert compare_values(floats(100, 0), floats(101, 0.0005), TIGHT) == ("", 1.0)


def test_beyond_tolerance() -> None:
    problem, error = compare_values(floats(1, 2, 3), floats(1, 2.5, 3.25), TIGHT)
    assert problem == (
        "2 of 3 values are further off than 0.001 + 0.01 x |reference|; the worst is 2.5 instead of 2 at [1]"
    )
    assert error == 0.5


def test_what_is_not_finite() -> None:
    nan, inf = float("nan"), float("inf")
    assert compare_values(floats(1, 2), floats(nan, inf), TIGHT) == ("2 of 2 values are not finite", 0.0)
    assert compare_values(floats(1, 2), floats(nan, 2), None) == ("1 of 2 values are not finite", 0.0)
    assert compare_values(floats(nan, inf), floats(nan, inf), TIGHT) == ("", 0.0)
    assert compare_values(floats(inf, 1), floats(-inf, 1), TIGHT) == ("values that are not finite differ", 0.0)


def test_shapes_and_types_are_part_of_it() -> None:
    assert compare_values(floats(1, 2), floats(1), None)[0] == "float32[1] instead of float32[2]"
    assert compare_values(floats(1), np.array([1.0]), None)[0] == "float64[1] instead of float32[1]"


def test_integers_are_equal_or_not() -> None:
    right, wrong = np.array([1, 2, 3]), np.array([1, 2, 4])
    assert compare_values(right, wrong, TIGHT) == ("1 of 3 values differ", 0.0)
    assert compare_values(right, wrong, None) == ("", 0.0)
    assert compare_values(np.array(["a"]), np.array(["a"]), TIGHT) == ("", 0.0)


def test_nothing_to_compare() -> None:
    assert compare_values(floats(), floats(), TIGHT) == ("", 0.0)


def test_a_session_takes_what_the_model_takes(tmp_path: Path) -> None:
    model = open_model(artifact(tmp_path, parse(ADD)) / "model.onnx", ["y"])
    (result,) = model({"x": np.zeros((1, 3), np.float32), "other": np.zeros(1)})
    assert result.tolist() == [[1, 1, 1]]


def test_a_disagreement_names_output_case_and_way_out(tmp_path: Path) -> None:
    agreement = Agreement("the new model", "the old model", ["y"], TIGHT, "do something")
    with pytest.raises(StageFailed) as caught:
        check(make_context(tmp_path), agreement, CASES, [[np.ones((2, 3))]], lambda _: [np.full((2, 3), 2.0)])
    assert caught.value.stage == "stage"
    assert str(caught.value) == (
        "the new model disagrees with the old model in output 'y'\n"
        "  6 of 6 values are further off than 0.001 + 0.01 x |reference|; the worst is 2 instead of 1 at [0, 0]\n"
        "  for some values at n=2\n"
        "  hint: do something"
    )


def test_an_axis_of_which_each_model_may_have_another_size(tmp_path: Path) -> None:
    def largest(value: Array) -> float:
        agreement = Agreement("the new model", "the old model", ["y"], None, "", {"y": (0,)})
        return check(make_context(tmp_path), agreement, CASES, [[np.ones((2, 4))]], lambda _: [value])

    assert largest(np.full((3, 4), 1.5)) == 0.5
    assert largest(np.ones((0, 4))) == 0
    for wrong, problem in (
        (np.ones((3, 5)), "float64[2, 5] instead of float64[2, 4]"),
        (np.ones(3), "float64[3] instead of float64[2, 4]"),
        (np.ones((3, 4), np.float32), "float32[2, 4] instead of float64[2, 4]"),
    ):
        with pytest.raises(StageFailed) as caught:
            largest(wrong)
        assert str(caught.value) == (
            f"the new model disagrees with the old model in output 'y'\n  {problem}\n  for some values at n=2"
        )


def test_the_largest_error_is_returned(tmp_path: Path) -> None:
    agreement = Agreement("the new model", "the old model", ["y", "z"], TIGHT, "")
    expected = [[np.ones(3), np.ones(2)]]
    error = check(make_context(tmp_path), agreement, CASES, expected, lambda _: [np.ones(3), np.full(2, 1.0005)])
    assert error == pytest.approx(0.0005)


def test_a_model_that_cannot_run_a_case(tmp_path: Path) -> None:
    model = open_model(artifact(tmp_path, parse(ADD)) / "model.onnx", ["y"])
    case = Case("random values at n=2, m=4", {}, {"x": np.ones((2, 4), np.float32)})
    with pytest.raises(StageFailed) as caught:
        run_cases(make_context(tmp_path), "the model before it", model, [case])
    assert caught.value.problem == "the model before it cannot run random values at n=2, m=4"
    assert "index: 1 Got: 4 Expected: 3" in caught.value.why
    assert caught.value.hint == (
        "say which sizes the axes can take, `dims: {axis: [16, 32]}`, or give inputs, `inputs: file.py:function`"
    )


def test_a_candidate_that_cannot_run_what_the_reference_ran(tmp_path: Path) -> None:
    model = open_model(artifact(tmp_path, parse(ADD)) / "model.onnx", ["y"])
    agreement = Agreement("the new model", "the old model", ["y"], TIGHT, "do something")
    case = Case("random values at n=2, m=4", {}, {"x": np.ones((2, 4), np.float32)})
    with pytest.raises(StageFailed) as caught:
        check(make_context(tmp_path), agreement, [case], [[np.ones((2, 4))]], model)
    assert caught.value.problem == "the new model cannot run random values at n=2, m=4"
    assert caught.value.hint == "do something"


@pytest.mark.parametrize(
    ("kind", "why", "hint"),
    [
        (
            "double",
            "Could not find an implementation for Conv(11) node with name '', whose inputs are double",
            (
                "it has most kernels for float32: convert the model in that type, in PyTorch by `return "
                "module.float()` and no other type in the module's code; do something"
            ),
        ),
        (
            "complex128",
            (
                "o/model.onnx: This is an invalid model. Type Error: Type 'tensor(complex128)' of input parameter (x) "
                "of operator (Conv) in node () is invalid."
            ),
            "do something",
        ),
    ],
)
def test_a_result_that_cannot_be_opened(tmp_path: Path, kind: str, why: str, hint: str) -> None:
    context = make_context(tmp_path, output=tmp_path / "o")
    text = f"g ({kind}[1, 1, 4] x, {kind}[1, 1, 3] w) => ({kind}[1, 1, 2] y) {{ y = Conv (x, w) }}"
    context.output.mkdir()
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}'), context.result)
    agreement = Agreement("the exported model", "the PyTorch model", ["y"], TIGHT, "do something")
    with pytest.raises(StageFailed) as caught:
        check_result(context, agreement, [], [])
    assert str(caught.value) == f"ONNX Runtime cannot open the exported model\n  {why}\n  hint: {hint}"


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
    assert caught.value.problem == "the model before it cannot run random values at n=1"
    result = run_stage("optimize/simplify", tmp_path, {"inputs": "data.py:pairs"}, inputs={"model": before})
    assert result.value("max_abs_error") == 0
    assert "on 2 inputs" in result.log


SCALED = """
<ir_version: 9, opset_import: ["" : 20]>
scaled (float[n, 3] x, float factor) => (float[n, 3] y) { z = Identity (x) y = Mul (z, factor) }
"""


def test_a_scalar_of_a_dataset(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((2, 3), np.float32), factor=np.array([2, 3], np.float32))
    before = artifact(tmp_path, parse(SCALED))
    result = run_stage("optimize/simplify", tmp_path, {"inputs": {"path": "data.npz"}}, inputs={"model": before})
    assert "on 2 inputs" in result.log


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
    result = run_stage("optimize/simplify", tmp_path, inputs={"model": artifact(tmp_path, parse(SPLIT))})
    assert result.value("max_abs_error") == 0
    right = [floats(1, 2), floats(3)]
    assert compare_values(right, [floats(1, 2)], TIGHT) == ("1 values instead of 2", 0.0)
    assert compare_values(right, [floats(1, 2), floats(3, 4)], TIGHT)[0] == "float32[2] instead of float32[1]"


NUMBERS = np.arange(8, dtype=np.float32).reshape(2, 4)
NOTHING = np.zeros((2, 4))


def limits(arbitrary: Array, spread: Array) -> Limits:
    return Limits(lambda _case, _right: [Limit(arbitrary.astype(bool), spread)], "differs from itself")


def checked(folder: Path, wrong: Array, limits: Limits) -> tuple[float, list[str]]:
    """Return the largest error of a candidate with such deviations, and the notes of the stage."""
    stage = make_context(folder)
    agreement = Agreement("the new model", "the old model", ["y"], TIGHT, "do something")
    error = check(stage, agreement, CASES, [[NUMBERS]], lambda _: [(NUMBERS + wrong).astype(np.float32)], limits)
    return error, stage.notes


def test_values_that_count_for_nothing_are_left_out(tmp_path: Path) -> None:
    unseen = np.array([[1, 1, 1, 1], [0, 0, 0, 0]])
    error, notes = checked(tmp_path, unseen * 5, limits(unseen, NOTHING))
    assert error == 0
    assert notes == [
        "4 of 8 values of output 'y' were not compared: they depend on attention rows that see nothing",
    ]
    assert checked(tmp_path, np.where(unseen, np.nan, 0), limits(unseen, NOTHING))[0] == 0


def test_nothing_is_looked_for_where_models_agree(tmp_path: Path) -> None:
    def refuse(_case: Case, _right: Any) -> list[Limit]:
        raise AssertionError

    assert checked(tmp_path, NOTHING, Limits(refuse, "")) == (0, [])


def test_a_disagreement_in_the_other_rows(tmp_path: Path) -> None:
    unseen = np.array([[1, 1, 1, 1], [0, 0, 0, 0]])
    with pytest.raises(StageFailed) as caught:
        checked(tmp_path, unseen * 5 + np.array([[0], [1]]), limits(unseen, NOTHING))
    assert caught.value.why.startswith("4 of 8 values are further off than ")


def test_nothing_is_left_to_compare(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        checked(tmp_path, NOTHING + 5, limits(NOTHING + 1, NOTHING))
    assert str(caught.value) == (
        "no value of output 'y' can be compared\n"
        "  in the old model each of its 8 values depends on attention rows that see nothing\n"
        "  hint: declare masks that show something to each row, such as `fill: right-padded`, where the model is "
        "converted; or give inputs, `inputs: file.py:function`"
    )


def test_the_tolerance_is_a_multiple_of_what_the_reference_differs_from_itself(tmp_path: Path) -> None:
    spread = np.array([[0.5] * 4, [0.0] * 4])
    error, notes = checked(tmp_path, spread * 9, limits(NOTHING, spread))
    assert error == 4.5
    (note,) = notes
    assert note == (
        "the new model is off by 4.5 in output 'y' for some values at n=2, beyond the tolerance: the old model "
        "differs from itself by up to 0.5 there, and 10 times that is allowed"
    )
    with pytest.raises(StageFailed) as caught:
        checked(tmp_path, spread * 11, limits(NOTHING, spread))
    assert caught.value.why.startswith(
        "4 of 8 values are further off than 0.001 + 0.01 x |reference|; the worst is 5.5 "
    )
    with pytest.raises(StageFailed):
        checked(tmp_path, spread[::-1], limits(NOTHING, spread))


def test_integers_in_which_the_reference_differs_from_itself() -> None:
    right, value = np.array([1, 2, 3]), np.array([1, 5, 3])
    assert compare_values(right, value, TIGHT, Limit(np.zeros(3, bool), np.array([0.0, 1.0, 0.0]))) == ("", 0.0)
    assert compare_values(right, value, TIGHT, Limit(np.zeros(3, bool), np.array([1.0, 0.0, 1.0])))[0] == (
        "1 of 3 values differ"
    )


SHAKY = """
<ir_version: 9, opset_import: ["" : 20]>
shaky (float[n, 64] x) => (float[n, 64] y)
<float scale = {1.1}, float least = {1e-12}, int64[1] last = {1}>
{
  wide = Mul (x, scale)
  mean = ReduceMean <keepdims = 1> (wide, last)
  away = Sub (wide, mean)
  square = Mul (away, away)
  variance = ReduceMean <keepdims = 1> (square, last)
  width = Sqrt (variance)
  some = Add (width, least)
  y = Div (away, some)
}
"""


def test_an_onnx_model_that_differs_from_itself(tmp_path: Path) -> None:
    """Normalizing a constant leaves only rounding errors, divided by their own spread."""
    path = artifact(tmp_path, parse(SHAKY)) / "model.onnx"
    limits = build_limits(make_context(tmp_path), path, ["y"], None)
    for value, least, most in ((np.full((1, 64), 0.3), 0.1, 10), (np.linspace(0, 1, 64)[None], 0, 1e-5)):
        case = Case("", {}, {"x": value.astype(np.float32)})
        right = run_cases(make_context(tmp_path), "it", open_model(path, ["y"]), [case])[0]
        with contextlib.chdir(tmp_path):
            (limit,) = limits.of(case, right)
        assert limit is not None
        assert not limit.arbitrary.any()
        assert least <= float(limit.spread.max()) <= most


def test_the_spread_of_a_reference_is_the_largest_of_each_example() -> None:
    """Frames of one waveform round by chance: a limit of its own for each refused right exports of long ones."""
    value, other = np.zeros((2, 3, 2), np.float32), np.zeros((2, 3, 2), np.float32)
    other[0, 1, 0], other[1, 2, 1] = 0.5, 0.25
    (limit,) = merge([([value], [other]), ([value], [value])], None)
    assert limit is not None
    assert limit.spread[:, :, 0].tolist() == limit.spread[:, :, 1].tolist() == [[0.5] * 3, [0.25] * 3]
    assert not limit.arbitrary.any()
