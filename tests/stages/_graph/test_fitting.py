"""Examples that do not fit the model are refused before ONNX Runtime or a quantizer runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import UsageError
from tests.stages.models import WORDY, convolution, parse
from tests.stages.support import artifact, run_stage

DATA = """
import numpy as np
import orun

IMAGES = np.random.default_rng(0).standard_normal((4, 3, 8, 8))

def last():
    return orun.Dataset({"image": IMAGES.astype(np.float32).transpose(0, 2, 3, 1)})

def doubles():
    return orun.Dataset({"image": IMAGES})

def small():
    return orun.Dataset({"image": IMAGES.astype(np.float32)[:, :, :4]})

def flat():
    return orun.Dataset({"image": IMAGES.astype(np.float32).reshape(4, -1)})

def rows():
    return orun.Dataset({"x": [IMAGES[0, 0, :size, :4].astype(np.float32) for size in (2, 3, 5)]})
"""
CAST = "in the dataset, image: values.astype(np.float32); of a file, `types: {image: float32}`"


@pytest.mark.parametrize(
    ("dataset", "example", "hint"),
    [
        ("last", "float32 [1, 8, 8, 3]", "\n  hint: in the dataset, image: values.transpose(0, 3, 1, 2)"),
        ("doubles", "float64 [1, 3, 8, 8]", f"\n  hint: {CAST}"),
        ("small", "float32 [1, 3, 4, 8]", ""),
        ("flat", "float32 [1, 192]", ""),
    ],
)
@pytest.mark.parametrize(
    ("uses", "parameter", "source"),
    [
        ("quantize/static", "dataset", "an example of data.py:{}"),
        ("optimize/simplify", "inputs", "an example of data.py:{}"),
        ("measure/memory", "inputs", "the dataset"),
    ],
)
def test_what_the_model_does_not_take_is_told(
    tmp_path: Path, uses: str, parameter: str, source: str, dataset: str, example: str, hint: str
) -> None:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    model, params = artifact(tmp_path, convolution()), {parameter: f"data.py:{dataset}"}
    with pytest.raises(UsageError) as caught:
        run_stage(uses, tmp_path, params, inputs={"model": model}, root=tmp_path)
    assert str(caught.value) == (
        f"{source.format(dataset)} does not fit the input 'image' of the model\n"
        f"  it has {example}, and the model takes float32 ['n', 3, 8, 8]{hint}"
    )


def test_sizes_may_differ_along_an_axis_with_a_name(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    model = artifact(tmp_path, parse(WORDY))
    result = run_stage("quantize/static", tmp_path, {"dataset": "data.py:rows"}, inputs={"model": model}, root=tmp_path)
    assert result.value("quantized") == 1
