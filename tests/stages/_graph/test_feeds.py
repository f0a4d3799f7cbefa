from __future__ import annotations

import numpy as np
import pytest

from orun.errors import UsageError
from orun.stages._graph.feeds import Input, assign_sizes, list_axes, make_cases

IDS = Input("ids", "int64", ("batch", "length"), low=0, high=9)
MASK = Input("mask", "int32", ("batch", "length"), fill="mask")
IMAGE = Input("image", "float32", ("batch", 3))


def test_every_axis_takes_every_size_and_axes_differ() -> None:
    assert list_axes([IDS, MASK, IMAGE]) == ("batch", "length")
    assigned = assign_sizes([IDS, MASK], {})
    assert assigned == [{"batch": 1, "length": 2}, {"batch": 2, "length": 7}, {"batch": 7, "length": 1}]


@pytest.mark.parametrize("shape", [("batch", "h", "w", 3), ("batch", 4, "h", "w")])
def test_an_image_of_any_size_is_tried_at_the_size_of_an_image(shape: tuple[int | str, ...]) -> None:
    image = Input("image", "float32", shape)
    assigned = assign_sizes([image], {})
    assert [tuple(sizes.values()) for sizes in assigned] == [(1, 2, 7), (2, 7, 1), (7, 1, 2), (7, 64, 48)]
    assert assign_sizes([image], {"batch": [1], "h": [8], "w": [9]}) == [{"batch": 1, "h": 8, "w": 9}]
    assert assign_sizes([image], {"batch": [1], "w": [9]})[-1] == {"batch": 1, "h": 64, "w": 9}


def test_sizes_of_the_pipeline() -> None:
    assigned = assign_sizes([IDS], {"batch": [4], "length": [16, 32]})
    assert assigned == [{"batch": 4, "length": 32}, {"batch": 4, "length": 16}]


def test_a_model_without_dynamic_axes_is_tried_once_at_random() -> None:
    assert [case.title for case in make_cases([Input("x", "float32", (2,))], {}, 0)] == [
        "random values",
        "lowest values",
        "highest values",
    ]


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(UsageError) as caught:
        assign_sizes([IDS], {"width": [1]})
    assert str(caught.value) == "the model has no dynamic axis 'width'\n  its dynamic axes are batch, length"
    with pytest.raises(UsageError) as caught:
        assign_sizes([], {"width": [1]})
    assert str(caught.value) == "the model has no dynamic axis 'width'\n  none of its axes is dynamic"


def test_titles_sizes_and_types() -> None:
    tried = list(make_cases([IDS, MASK, IMAGE], {}, 0))
    assert [case.title for case in tried] == [
        "random values at batch=1, length=2",
        "random values at batch=2, length=7",
        "random values at batch=7, length=1",
        "lowest values at batch=2, length=7",
        "highest values at batch=2, length=7",
    ]
    for case in tried:
        batch, length = case.sizes["batch"], case.sizes["length"]
        assert {name: (value.dtype.name, value.shape) for name, value in case.feed.items()} == {
            "ids": ("int64", (batch, length)),
            "mask": ("int32", (batch, length)),
            "image": ("float32", (batch, 3)),
        }


def test_bounds_are_kept_and_reached() -> None:
    *random, lowest, highest = make_cases([IDS, Input("x", "float32", (1000,), low=-2, high=3)], {}, 0)
    for case in random:
        assert set(case.feed["ids"].ravel()) <= set(range(10))
        assert -2 <= case.feed["x"].min() < -1.9
        assert 2.9 < case.feed["x"].max() <= 3
    assert set(lowest.feed["ids"].ravel()) == {0}
    assert set(highest.feed["ids"].ravel()) == {9}
    assert set(lowest.feed["x"]) == {-2}
    assert set(highest.feed["x"]) == {3}


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        (5, None, (5, 6)),
        (None, -5, (-6, -5)),
        (None, 255, (0, 255)),
        (-3, None, (-3, 1)),
    ],
)
def test_values_with_a_single_bound_span_the_range(
    low: float | None, high: float | None, bounds: tuple[float, float]
) -> None:
    cases = make_cases([Input("x", "float32", (1000,), low=low, high=high)], {}, 0)
    random, lowest, highest = (case.feed["x"] for case in cases)
    least, most = bounds
    margin = (most - least) / 100
    assert (set(lowest), set(highest)) == ({least}, {most})
    assert least <= random.min() < least + margin
    assert most - margin < random.max() <= most


def test_a_mask_always_shows_something() -> None:
    wide = Input("mask", "int64", (200, 6), fill="mask")
    anywhere, lowest, highest = (case.feed["mask"] for case in make_cases([wide], {}, 0))
    assert set(anywhere.ravel()) == {0, 1}
    assert anywhere.any(axis=-1).all()
    assert (np.diff(anywhere, axis=-1) > 0).any()
    assert lowest.sum(axis=-1).tolist() == [1] * 200
    assert highest.all()
    ending = next(make_cases([wide], {}, 0, "right-padded")).feed["mask"]
    assert set(ending.sum(axis=-1)) == set(range(1, 7))
    assert not (np.diff(ending, axis=-1) > 0).any()


def test_a_padded_mask_shows_the_front_alone() -> None:
    padded = Input("mask", "int64", ("batch", "length"), fill="right-padded")
    shown = [case.feed["mask"] for case in make_cases([padded], {"length": [5, 9]}, 0)]
    assert all((np.diff(mask, axis=1) <= 0).all() and mask[:, 0].all() for mask in shown)
    assert {int(length) for mask in shown for length in mask.sum(axis=1)} > {1, 9}


def test_text_and_flags() -> None:
    case = next(make_cases([Input("t", "object", (2,)), Input("b", "bool", (50,))], {}, 0))
    assert case.feed["t"].tolist() == ["random", "random"]
    assert set(case.feed["b"]) == {False, True}


def test_the_seed_decides() -> None:
    def values(seed: int) -> list[float]:
        return next(make_cases([IMAGE], {}, seed)).feed["image"].ravel().tolist()

    assert values(1) == values(1)
    assert values(1) != values(2)


def test_bytes_with_the_axes_of_an_image_are_pixels() -> None:
    cases = list(make_cases([Input("image", "uint8", (2, 8, 8, 3)), Input("flags", "uint8", (64, 3))], {}, 0))
    assert [int(case.feed["image"].max()) for case in cases] == [255, 0, 255]
    assert [int(case.feed["flags"].max()) for case in cases] == [1, 0, 1]


@pytest.mark.parametrize(
    ("low", "high", "dtype", "message"),
    [
        (5, None, "int64", "input 'x' takes values from 5 to 1, which is an empty range"),
        (0.2, 0.8, "int32", "input 'x' takes values from 1 to 0, which is an empty range"),
        (-1, None, "uint8", "input 'x' is of uint8, which cannot hold -1"),
        (None, 300, "int8", "input 'x' is of int8, which cannot hold 300"),
        (None, 1e5, "float16", "input 'x' is of float16, which cannot hold 100000"),
        (None, 2, "bool", "input 'x' is of bool, which cannot hold 2"),
    ],
)
def test_values_that_a_type_does_not_have(low: float | None, high: float | None, dtype: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        list(make_cases([Input("x", dtype, (2,), low=low, high=high)], {}, 0))
    assert str(caught.value) == message


def test_a_mask_has_no_other_bounds() -> None:
    with pytest.raises(UsageError) as caught:
        list(make_cases([Input("x", "int64", (2,), low=3, fill="mask")], {}, 0))
    assert str(caught.value) == "input 'x' is a mask of 0 and 1, and cannot have other bounds"
