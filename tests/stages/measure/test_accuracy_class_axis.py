"""Classes that stand along another axis than the last, as those of a segmentation do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from orun.errors import OrunError
from tests.stages.support import StageRun, artifact, run_stage

DATA = """
import numpy as np
import orun

SCORES = np.random.default_rng(0).standard_normal((6, 3, 4, 5)).astype(np.float32)

def pixels():
    labels = SCORES.argmax(1)
    labels[:, 0] = (labels[:, 0] + 1) % 3
    return orun.Dataset({"x": SCORES}, labels)

def top(outputs, dataset):
    return (outputs["y"].argmax(1) == dataset.labels).mean((1, 2))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    return tmp_path


def model(*factors: float) -> onnx.ModelProto:
    """Scores of three classes by pixel, each class's times a factor."""
    result = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    segmentation (float[n, 3, h, w] x) => (float[n, 3, h, w] y) { y = Mul (x, factors) }
    """)
    array = np.array(factors, np.float32).reshape(1, 3, 1, 1)
    result.graph.initializer.append(numpy_helper.from_array(array, "factors"))
    return result


def measure(folder: Path, **params: Any) -> StageRun:
    models = {"model": model(1, 1, -1), "reference": model(1, 1, 1)}
    inputs = {port: artifact(folder, model) for port, model in models.items()}
    given_params = {"dataset": "data.py:pixels", "batch": 4, **params}
    return run_stage("measure/accuracy", folder, given_params, inputs=inputs, root=folder)


def test_by_labels_and_by_the_reference(folder: Path) -> None:
    names = ["accuracy", "f1", "agreement", "kl", "cosine", "data.py:top"]
    run = measure(folder, metrics=names, class_axis=1)
    scores = np.random.default_rng(0).standard_normal((6, 3, 4, 5)).astype(np.float32)
    turned = scores * np.array([1, 1, -1], np.float32).reshape(1, 3, 1, 1)
    labels = scores.argmax(1)
    assert run.value("agreement") == pytest.approx((turned.argmax(1) == labels).mean())
    labels[:, 0] = (labels[:, 0] + 1) % 3
    assert run.value("accuracy") == pytest.approx((turned.argmax(1) == labels).mean())
    assert run.value("top") == pytest.approx(run.value("accuracy"))
    right, predicted = (
        np.exp(logits) / np.exp(logits).sum(1, keepdims=True) for logits in (scores.astype(float), turned.astype(float))
    )
    assert run.value("kl") == pytest.approx((right * np.log(right / predicted)).sum(1).mean())
    f1 = [
        2
        * (hits := ((turned.argmax(1) == k) & (labels == k)).sum())
        / ((turned.argmax(1) == k).sum() + (labels == k).sum())
        for k in range(3)
    ]
    assert hits
    assert run.value("f1") == pytest.approx(np.mean(f1))
    assert run.value("cosine") == pytest.approx(measure(folder, metrics=["cosine"]).value("cosine"))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"metrics": ["accuracy"]},
            (
                "accuracy needs one label for each prediction\n"
                "  the output is [6, 3, 4, 5], and the labels are [6, 4, 5]\n"
                "  hint: name the axis of the classes: `class_axis: 1`"
            ),
        ),
        (
            {"metrics": ["agreement"], "class_axis": 4},
            "class_axis: an output has no axis 4\n  its shape is [4, 3, 4, 5]",
        ),
    ],
)
def test_what_is_refused(folder: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(OrunError) as caught:
        measure(folder, **params)
    assert str(caught.value) == message
