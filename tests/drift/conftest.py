"""A real release with a reference, and the log of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from orun.stages.release._server.sample_log import SampleLog
from tests.shared import make_once
from tests.stages.support import artifact, run_stage

FEATURES, CLASSES = 8, 3
MODEL = f"""
<ir_version: 9, opset_import: ["" : 20]>
g (float[batch, {FEATURES}] x) => (float[batch, {CLASSES}] y) {{ y = MatMul (x, w) }}
"""
PROVENANCE = '{"pipeline": "toy", "needs": {}, "stages": []}'

Array = NDArray[Any]
Serve = Callable[..., Path]


def draw(random: np.random.Generator, rows: int) -> Array:
    return random.normal(size=(rows, FEATURES)).astype(np.float32)


def make_release(folder: Path) -> Path:
    """Return a bundle of a linear classifier, made by `release/bundle` from 300 examples."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(FEATURES, CLASSES)).astype(np.float32)
    model = parser.parse_model(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    (folder / "provenance.json").write_text(PROVENANCE)
    np.savez(folder / "examples.npz", x=draw(random, 300))
    return run_stage(
        "release/bundle",
        folder,
        {"version": "1", "data": "examples.npz"},
        inputs={"model": artifact(folder, model)},
        provenance=folder / "provenance.json",
    ).output


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle; nobody may write to it."""
    return make_once(tmp_path_factory, "release_with_reference", make_release)


@pytest.fixture
def serve(release: Path, tmp_path: Path) -> Serve:
    """Answer requests with the released model, and return the log of all of them: one second a request."""
    session = ort.InferenceSession(release / "model.onnx")
    path = tmp_path / "requests.jsonl"
    random = np.random.default_rng(1)

    def call(requests: int, change: Callable[[Array], Array] = lambda x: x, rows: int = 1, **options: Any) -> Path:
        log = SampleLog(path, 1.0, 0, **options)
        for _ in range(requests):
            x = change(draw(random, rows))
            (y,) = session.run(None, {"x": x})
            log.record({"x": x}, {"y": y}, float(random.lognormal(-6, 0.3)))
        log.close()
        return path

    return call


def shift_times(path: Path) -> None:
    """Set the time of the n-th record to n hours after the epoch."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    text = "".join(json.dumps(line | {"time": 3600.0 * number}) + "\n" for number, line in enumerate(lines))
    path.write_text(text)
