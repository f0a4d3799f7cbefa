from __future__ import annotations

import pytest

from orun.core import dynamic_axes
from orun.stages._graph.feeds import Input, assign_sizes, make_cases


@pytest.mark.parametrize(
    ("axis", "names", "at", "of_past"),
    [
        ("batch", ("batch",), 2, "batch"),
        ("past + sequence", ("past", "sequence"), 8, "sequence + 3"),
        ("past+1", ("past",), 4, 4),
        ("32 * rows", ("rows",), 224, "32 * rows"),
        ("2*past + 3 * rows + past + 4", ("past", "rows"), 34, "3 * rows + 13"),
        ("past * rows", ("past", "rows"), 21, "3 * rows"),
        ("past_key_values.0.key_axis + sequence", ("past_key_values.0.key_axis", "sequence"), 6, None),
        ("batch-size", ("batch-size",), None, "batch-size"),
        ("floor(h/2) + 1", ("floor(h/2) + 1",), None, "floor(h/2) + 1"),
        ("2 * 3", ("2 * 3",), 6, 6),
        ("a + ", ("a + ",), None, "a + "),
    ],
)
def test_sums_and_multiples(axis: str, names: tuple[str, ...], at: int | None, of_past: int | str | None) -> None:
    sizes = {"batch": 2, "past": 3, "sequence": 5, "rows": 7, "past_key_values.0.key_axis": 1}
    assert dynamic_axes.list_names(axis) == names
    if at is not None:
        assert dynamic_axes.compute_size(axis, sizes) == at
    if of_past is not None:
        assert dynamic_axes.substitute(axis, {"past": 3}) == of_past


def test_a_name_that_has_a_size_is_no_sum() -> None:
    assert dynamic_axes.compute_size("a + b", {"a + b": 4, "a": 1, "b": 2}) == 4


def test_a_multiple_of_none_leaves_nothing() -> None:
    assert dynamic_axes.substitute("past * rows + sequence", {"past": 0}) == "sequence"
    assert dynamic_axes.substitute("past * rows", {"past": 0}) == 0


def test_axes_that_follow_are_of_no_size_of_their_own() -> None:
    inputs = [
        Input("mask", "int64", ("batch", "past + sequence"), fill="mask"),
        Input("ids", "int64", ("batch", "sequence")),
        Input("image", "float32", (1, 3, "4 * rows", 8)),
        Input("past", "float32", ("batch", "past", 2)),
    ]
    assert dynamic_axes.list_free(item.shape for item in inputs) == ("batch", "sequence", "past", "rows")
    assigned = assign_sizes(inputs, {"past": [0, 3], "rows": [2]})
    assert assigned[0] == {"batch": 1, "sequence": 2, "past": 0, "rows": 2}
    for case, sizes in zip(make_cases(inputs, {"past": [0, 3], "rows": [2]}, 0), assigned, strict=False):
        shapes = {name: value.shape for name, value in case.feed.items()}
        batch, sequence, past = sizes["batch"], sizes["sequence"], sizes["past"]
        assert shapes == {
            "mask": (batch, past + sequence),
            "ids": (batch, sequence),
            "image": (1, 3, 8, 8),
            "past": (batch, past, 2),
        }
