"""Signal and noise of tensors, with known answers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from orun.core.targets import Target
from orun.diagnosis.values import Probe, Tally
from orun.measure.metrics.fidelity import SQNR_LIMIT

RIGHT = np.array([3.0, 4.0], np.float32)


def tallied(*values: list[float]) -> Tally:
    tally = Tally()
    for value in values:
        tally.add("y", np.array(value, np.float32), RIGHT)
    return tally


def test_signal_and_noise_are_summed_over_examples() -> None:
    tally = tallied([3.0, 5.0], [3.0, 4.0])
    assert tally.sqnr("y") == pytest.approx(10 * math.log10(50 / 1))
    assert tally.compute_error() == pytest.approx(1 / 50)


def test_one_value_that_is_not_finite_is_all_wrong() -> None:
    tally = tallied([math.nan, 4.0], [3.0, 4.0])
    assert tally.sqnr("y") == -SQNR_LIMIT
    assert tally.compute_error() == math.inf


def test_what_is_not_finite_in_the_reference_is_left_out() -> None:
    tally = Tally()
    tally.add("y", np.array([1.0, 2.0], np.float32), np.array([math.inf, 4.0], np.float32))
    assert tally.sqnr("y") == pytest.approx(10 * math.log10(16 / 4))


def test_each_tensor_counts_by_its_own_size() -> None:
    tally = tallied([3.0, 5.0])
    tally.add("large", 1000 * np.array([3.0, 5.0], np.float32), 1000 * RIGHT)
    assert tally.compute_error() == pytest.approx(1 / 25)
    tally.add("zero", np.array([0.5], np.float32), np.array([0.0], np.float32))
    assert tally.compute_error() == pytest.approx((1 / 25 + 1 / 25 + 0.25) / 3)


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), np.zeros(2, np.int64)])
def test_of_another_shape_or_type_nothing_is_told(value: np.ndarray) -> None:
    tally = tallied([3.0, 4.0])
    tally.add("y", value, RIGHT)
    assert tally.sqnr("y") is None
    assert tally.compute_error() == 0.0
    assert tally.sqnr("other") is None


def test_an_output_or_input_that_is_asked_for_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { h = Neg (x) y = Abs (h) }'
    )
    probe = Probe(model, ["y", "h", "x", "h"], Target("cpu"))
    actual = probe.run({"x": RIGHT, "more": RIGHT})
    assert {name: values.tolist() for name, values in actual.items()} == {
        "x": [3.0, 4.0],
        "h": [-3.0, -4.0],
        "y": [3.0, 4.0],
    }
    assert [item.name for item in probe.session.get_outputs()] == ["y", "h"]
    assert [value.name for value in model.graph.output] == ["y"]
