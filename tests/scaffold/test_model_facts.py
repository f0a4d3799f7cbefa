"""Facts about models."""

from __future__ import annotations

import pytest

from orun.core.serialization import replace
from orun.errors import UsageError
from orun.scaffold.data_text import format_data
from orun.scaffold.inspection import parse_inputs
from orun.scaffold.model_facts import GraphFacts, ModelFacts
from orun.scaffold.recipe import list_stages
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target


@pytest.mark.parametrize(
    ("declared", "fill"),
    [
        ("attention_mask=int64[batch,sequence]", "right-padded"),
        ("mask=int32[batch,sequence]", "right-padded"),
        ("input_mask=int64[batch,sequence]", "right-padded"),
        ("attention_mask=int64[batch,1,sequence,sequence]", "right-padded"),
        ("mask=bool[batch,sequence]", "random"),  # which PyTorch reads the other way round
        ("pixel_mask=int64[batch,height,width]", "random"),
        ("masked=int64[batch,sequence]", "random"),
    ],
)
def test_integers_that_are_named_a_mask_of_tokens_are_one(declared: str, fill: str) -> None:
    (item,) = parse_inputs([declared])
    assert item.fill == fill


def test_bytes_with_the_axes_of_an_image_are_pixels() -> None:
    inputs = parse_inputs(["image=uint8[batch,24,24,3]", "flags=uint8[batch,3]"])
    assert [item.high for item in inputs] == [255, None]
    text = format_data("net.yaml", ModelFacts("torch", "net.py:load", inputs))
    assert "'image': random.integers(0, 255, (n, 24, 24, 3), np.uint8, endpoint=True)," in text
    request = Request(ModelFacts("torch", "net.py:load", inputs), find_target("cpu"))
    assert list_stages(request, {})[0].parameters["inputs"] == {
        "image": {"shape": ["batch", 24, 24, 3], "dtype": "uint8", "high": 255},
        "flags": {"shape": ["batch", 3], "dtype": "uint8"},
    }


def test_made_up_indices_are_of_all_rows_of_a_table_that_the_graph_looks_up() -> None:
    inputs = parse_inputs(["user=int64[batch]", "clicks=int64[batch,2]", "attention_mask=int64[batch,2]"])
    graph = GraphFacts((replace(inputs[0], high=99), *inputs[1:]))
    text = format_data("net.yaml", ModelFacts("torch", "net.py:load", inputs, graph=graph))
    assert "'user': random.integers(0, 99, (n,), np.int64, endpoint=True)," in text
    assert "'clicks': random.integers(0, 1, (n, 2), np.int64, endpoint=True)," in text
    assert "'attention_mask': np.ones((n, 2), np.int64)," in text


def test_axes_are_sizes_and_names() -> None:
    inputs = parse_inputs(["x=float32[batch, 3, 2*half+1]", "scale=float32[]"])
    assert [item.shape for item in inputs] == [("batch", 3, "2*half+1"), ()]


@pytest.mark.parametrize("axis", ["?", "None", "-1", "", "..."])
def test_an_axis_of_any_size_needs_a_name(axis: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_inputs([f"x=float32[{axis},3]"])
    assert str(caught.value) == (
        f"the input 'x' has the axis {axis!r}, which is no size and no name\n"
        "  an axis of any size has a name; axes of one name have one size\n"
        "  hint: --input 'image=float32[batch,3,224,224]'"
    )
