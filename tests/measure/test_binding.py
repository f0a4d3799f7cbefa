"""Inferences with inputs and outputs that are bound beforehand: the same answers, and nothing copied."""

from __future__ import annotations

from pathlib import Path
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


class Watched:
    """A session that notes what it is asked to do."""

    def __init__(self, session: InferenceSession) -> None:
        self.session, self.asked = session, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, *words: Any) -> Any:
        self.asked.append("run")
        return self.session.run(*words)

    def run_with_iobinding(self, binding: Any) -> None:
        self.session.run_with_iobinding(binding)
        self.asked.append(binding.get_outputs())


@pytest.mark.parametrize("bound", [False, True])
def test_what_is_bound_is_run_without_arrays(tmp_path: Path, *, bound: bool) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    session = Watched(InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"]))
    feeds = {"x": np.array([[1, 2], [3, 4]], np.float32), "k": np.array([5, 6])}
    run = bind_inference(session, feeds, bound=bound)
    first: Any = run()
    again: Any = run()
    if not bound:
        assert session.asked == ["run", "run"]
        assert [value.tolist() for value in first] == [[[1, 4], [9, 16]], [-5, -6]]
        return
    assert (first, again) == (None, None)
    assert len(session.asked) == 2
    for outputs in session.asked:
        assert [value.device_name() for value in outputs] == ["cpu", "cpu"]
        assert [value.numpy().tolist() for value in outputs] == [[[1, 4], [9, 16]], [-5, -6]]
