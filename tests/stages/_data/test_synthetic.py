"""Made-up examples from a model's signature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orun.errors import UsageError
from orun.stages._data.synthetic import make_examples
from tests.stages.models import parse
from tests.stages.support import artifact


def test_indices_stay_in_their_tables_and_masks_end_early(tiny_bert: Path) -> None:
    dataset = make_examples(tiny_bert / "model.onnx", 30, {"sequence": [4, 9]}, seed=1)
    ids, masks = dataset.inputs["input_ids"], dataset.inputs["attention_mask"]
    assert [row.shape for row in ids[:4]] == [(4,), (9,), (4,), (9,)]
    assert max(row.max() for row in ids) <= 99
    assert min(row.min() for row in ids) >= 0
    assert all((np.diff(row) <= 0).all() and row[0] == 1 for row in masks)
    assert len({row.tobytes() for row in ids}) == 30
    again = make_examples(tiny_bert / "model.onnx", 30, {"sequence": [4, 9]}, seed=1)
    assert all(np.array_equal(values, other) for values, other in zip(ids, again.inputs["input_ids"], strict=True))
    other = make_examples(tiny_bert / "model.onnx", 30, {"sequence": [4, 9]}, seed=2)
    assert not np.array_equal(ids[0], other.inputs["input_ids"][0])


def test_inputs_without_an_axis_for_examples_are_made_up_whole(tmp_path: Path) -> None:
    """A scalar, and a first axis of a fixed size above 1: each example has all of it."""
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    g (float[batch, 4] x, float t, float[2, batch, 3] state, int64[4] steps)
    => (float[batch, 4] y, float u, float[2, batch, 3] z, int64[4] s)
    { y = Abs(x)  u = Abs(t)  z = Abs(state)  s = Abs(steps) }
    """)
    dataset = make_examples(artifact(tmp_path, model) / "model.onnx", 5, {}, 0)
    assert {name: np.asarray(values).shape for name, values in dataset.inputs.items()} == {
        "x": (5, 4),
        "t": (5,),
        "state": (5, 2, 1, 3),
        "steps": (5, 4),
    }
    assert len(set(np.asarray(dataset.inputs["t"]).tolist())) == 5


def test_sizes_of_the_axis_of_examples(tmp_path: Path) -> None:
    """Sizes of the batch are for comparisons; an example has no such axis."""
    model = '<ir_version: 9, opset_import: ["" : 20]> g (float[batch, 4] x) => (float[batch, 4] y) { y = Abs(x) }'
    path = artifact(tmp_path, parse(model)) / "model.onnx"
    dataset = make_examples(path, 3, {"batch": [1, 2]}, 0)
    assert [row.shape for row in dataset.inputs["x"]] == [(4,)] * 3
    with pytest.raises(UsageError) as caught:
        make_examples(path, 3, {"batches": [1, 2]}, 0)
    assert str(caught.value) == "the model has no dynamic axis 'batches'\n  its dynamic axes are batch"


def test_sizes_for_a_model_of_fixed_shape(tmp_path: Path) -> None:
    model = '<ir_version: 9, opset_import: ["" : 20]> g (float[1, 4] x) => (float[1, 4] y) { y = Abs(x) }'
    with pytest.raises(UsageError) as caught:
        make_examples(artifact(tmp_path, parse(model)) / "model.onnx", 3, {"batch": [1, 2]}, 0)
    assert str(caught.value) == "the model has no dynamic axis 'batch'\n  none of its axes is dynamic"


def test_the_batch_may_stand_elsewhere_too(tmp_path: Path) -> None:
    """A recurrent layer takes `[time, batch, size]`, and the lengths of the batch."""
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    recurrent (float[time, n, 2] x, int32[n] lengths) => (float[time, n, 2] y, int32[n] z)
    { y = Identity (x)  z = Identity (lengths) }
    """)
    dataset = make_examples(artifact(tmp_path, model) / "model.onnx", 3, {}, 0)
    assert {name: np.asarray(values).shape for name, values in dataset.inputs.items()} == {
        "x": (3, 1, 2),
        "lengths": (3,),
    }


def test_a_model_that_takes_nothing(tmp_path: Path) -> None:
    model = parse(
        '<ir_version: 9, opset_import: ["" : 20]> none () => (float y) { y = Constant <value = float {1.0}> () }'
    )
    with pytest.raises(UsageError) as caught:
        make_examples(artifact(tmp_path, model) / "model.onnx", 3, {}, 0)
    assert str(caught.value) == "the model has no inputs, so no examples can be made up"
