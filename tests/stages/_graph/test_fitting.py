"""Examples that do not fit the model are refused before ONNX Runtime or a quantizer runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orun.errors import UsageError
from orun.stages._graph.fitting import warn_of_bounds
from orun.stages._graph.input_domain import InputDomain, InputValues, write_domain
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

def pixels():
    return orun.Dataset({"image": np.linspace(0, 255, 768).reshape(4, 3, 8, 8).astype(np.float32)})

def rows():
    return orun.Dataset({"x": [IMAGES[0, 0, :size, :4].astype(np.float32) for size in (2, 3, 5)]})
"""
OUTSIDE = (
    "x goes from -2.12 to 2.62 in the data, and the input domain of the model is 0 to 255: scale the data, or declare "
    "its bounds where the model is converted"
)
TINY = (
    "x goes from 0 to 1 in the data, a small part of the input domain of the model, 0 to 255: the data may be scaled "
    "otherwise than the model expects"
)
CAST = "in the dataset, image: values.astype(np.float32); of files, `types: {image: float32}`"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(DATA, "utf-8")


def refusal(folder: Path, uses: str, **params: str) -> str:
    with pytest.raises(UsageError) as caught:
        run_stage(uses, folder, params, inputs={"model": artifact(folder, convolution())})
    return str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "example", "hint"),
    [
        ("last", "float32 [1, 8, 8, 3]", "\n  hint: in the dataset, image: values.transpose(0, 3, 1, 2)"),
        ("doubles", "float64 [1, 3, 8, 8]", f"\n  hint: {CAST}"),
        ("small", "float32 [1, 3, 4, 8]", ""),
        ("flat", "float32 [1, 192]", ""),
    ],
)
def test_examples_that_the_model_does_not_take(tmp_path: Path, dataset: str, example: str, hint: str) -> None:
    assert refusal(tmp_path, "quantize/static", dataset=f"data.py:{dataset}") == (
        f"an example of data.py:{dataset} does not fit the input 'image' of the model\n"
        f"  it has {example}, and the model takes float32 ['n', 3, 8, 8]{hint}"
    )


@pytest.mark.parametrize(
    ("uses", "source"), [("optimize/simplify", "an example of data.py:flat"), ("measure/memory", "the dataset")]
)
def test_inputs_that_the_model_does_not_take(tmp_path: Path, uses: str, source: str) -> None:
    assert refusal(tmp_path, uses, inputs="data.py:flat") == (
        f"{source} does not fit the input 'image' of the model\n"
        "  it has float32 [1, 192], and the model takes float32 ['n', 3, 8, 8]"
    )


def test_sizes_may_differ_along_an_axis_with_a_name(tmp_path: Path) -> None:
    model = artifact(tmp_path, parse(WORDY))
    result = run_stage("quantize/static", tmp_path, {"dataset": "data.py:rows"}, inputs={"model": model}, root=tmp_path)
    assert result.value("quantized") == 1


@pytest.mark.parametrize(
    ("uses", "params"),
    [
        ("quantize/static", {"dataset": "data.py:pixels"}),
        ("measure/accuracy", {"dataset": "data.py:pixels", "metrics": ["cosine"]}),
    ],
)
def test_data_outside_of_the_input_domain_is_noted(tmp_path: Path, uses: str, params: dict[str, object]) -> None:
    model = convolution()
    write_domain(model, InputDomain({"image": InputValues(low=0, high=1)}))
    inputs = {"model": artifact(tmp_path, model)}
    if uses == "measure/accuracy":
        inputs["reference"] = inputs["model"]
    run = run_stage(uses, tmp_path, params, inputs=inputs, root=tmp_path)
    (note,) = run.notes
    assert note == (
        "image goes from 0 to 255 in the data, and the input domain of the model is 0 to 1: scale the data, or declare "
        "its bounds where the model is converted"
    )


def test_the_bounds_of_a_domain() -> None:
    def outside(low: float | None, high: float | None, *values: float) -> str:
        bounds = InputValues(low=low, high=high)
        note = "".join(warn_of_bounds({"x": bounds, "y": bounds}, {"x": [np.array(value) for value in values]}))
        return note.partition(": ")[0]

    assert outside(0, 1, 0, 1.005, np.nan) == ""
    assert (
        outside(0, 1, 0.5, 1.02) == "x goes from 0.5 to 1.02 in the data, and the input domain of the model is 0 to 1"
    )
    assert outside(0, None, -1, 9).endswith(
        "x goes from -1 to 9 in the data, and the input domain of the model is at least 0"
    )
    assert outside(None, 3, 1.5, 4).endswith("the input domain of the model is at most 3")
    assert outside(None, None, -1e9, 1e9) == ""
    assert outside(0, 1, np.nan) == ""
    assert list(warn_of_bounds({"x": InputValues(low=0, high=1)}, {"x": np.array(["text"], object)})) == []


@pytest.mark.parametrize(
    ("low", "high", "note"),
    [
        (-2.12, 2.62, OUTSIDE),
        (0, 1, TINY),
        (0.5, 0.5, None),  # an input that is always the same says nothing on its scale
        (20, 40, None),
        (-2.12, 255, None),
    ],
)
def test_pixels_that_are_scaled_otherwise_than_the_model_expects(low: float, high: float, note: str | None) -> None:
    """The slack is a share of what the data span: 1 % of the domain would hide all values of normalized pixels."""
    inputs = {"x": np.repeat([low, high], 2000).astype(np.float32).reshape(-1, 1, 2)}
    assert list(warn_of_bounds({"x": InputValues(low=0, high=255)}, inputs)) == ([note] if note else [])


@pytest.mark.parametrize(
    ("low", "high", "ids", "bounds"),
    [
        (None, 30521, [101, -1], "0 to 30521"),
        (None, 30521, [101, 30522], "0 to 30521"),
        (-2, 2, [-3, 0], "-2 to 2"),
        (None, 30521, [0, 30521], None),
        (-2, 2, [-2, 2], None),
    ],
)
def test_integers_begin_at_0_and_have_no_slack(
    low: float | None, high: float, ids: list[int], bounds: str | None
) -> None:
    """ONNX counts a negative index from the end of a table, where PyTorch raises IndexError."""
    notes = list(warn_of_bounds({"ids": InputValues(low=low, high=high)}, {"ids": [np.array(ids)]}))
    note = (
        f"ids goes from {min(ids)} to {max(ids)} in the data, and the input domain of the model is {bounds}: "
        "use values within it, or declare its bounds where the model is converted"
    )
    assert notes == ([note] if bounds else [])
