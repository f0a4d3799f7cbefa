"""Inferences with inputs and outputs that are bound beforehand: the same answers, and nothing copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

from orun.measure.binding import bind_inference

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 2] x, int64[n] k) => (float[n, 2] y, int64[n] j) { y = Mul (x, x) j = Neg (k) }
"""


FEEDS = {"x": np.array([[1, 2], [3, 4]], np.float32), "k": np.array([5, 6])}
ANSWER = [[[1, 4], [9, 16]], [-5, -6]]


class WatchedStatistic:
    """A session that notes what it is asked to do."""

    def __init__(self, session: InferenceSession) -> None:
        self.session, self.asked = session, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, *arguments: Any) -> Any:
        self.asked.append("run")
        return self.session.run(*arguments)

    def run_with_iobinding(self, binding: Any) -> None:
        self.session.run_with_iobinding(binding)
        self.asked.append(binding.get_outputs())


@pytest.fixture
def session() -> WatchedStatistic:
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return WatchedStatistic(InferenceSession(model, providers=["CPUExecutionProvider"]))


def test_what_is_not_bound_is_run_with_arrays(session: WatchedStatistic) -> None:
    run: Any = bind_inference(session, FEEDS, bound=False)
    for _ in range(2):
        assert [value.tolist() for value in run()] == ANSWER
    assert session.asked == ["run", "run"]


def test_what_is_bound_is_run_without_arrays(session: WatchedStatistic) -> None:
    run = bind_inference(session, FEEDS, bound=True)
    assert (run(), run()) == (None, None)
    assert [[value.device_name() for value in outputs] for outputs in session.asked] == [["cpu", "cpu"]] * 2
    assert [[value.numpy().tolist() for value in outputs] for outputs in session.asked] == [ANSWER] * 2
