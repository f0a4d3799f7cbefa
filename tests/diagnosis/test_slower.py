"""Difference of two profiles, on figures that can be worked out by hand."""

from __future__ import annotations

from orun.diagnosis.profiles import ModelTimes, NodeTime
from orun.diagnosis.slower import compare
from orun.measure.latency.nodes import Node

CPU, GPU = "CPUExecutionProvider", "CUDAExecutionProvider"


def times(*nodes: tuple[str, str, float] | tuple[str, str, float, str]) -> ModelTimes:
    result = [
        NodeTime(Node(str(place), node[0], node[1], node[3] if len(node) > 3 else CPU, "4"), node[2])
        for place, node in enumerate(nodes)
    ]
    return ModelTimes(tuple(result), (), 0.0)


def test_a_node_that_got_slower() -> None:
    difference = compare(
        times(("a", "MatMul", 3.0), ("b", "Tanh", 2.0)), times(("a", "MatMul", 1.0), ("b", "Tanh", 1.5))
    )
    assert difference.seconds == 2.5
    assert [(share.name, share.difference, share.share) for share in difference.places] == [
        ("a", 2.0, 0.8),
        ("b", 0.5, 0.2),
    ]
    assert [(share.name, share.share) for share in difference.operators] == [("MatMul", 0.8), ("Tanh", 0.2)]
    assert (difference.new, difference.gone) == ((), ())


def test_nodes_in_the_place_of_others_are_one_place() -> None:
    model = times(("a", "MatMul", 1.0), ("p", "Mul", 1.0), ("q", "Erf", 3.0), ("b", "Add", 1.0))
    reference = times(("a", "MatMul", 1.0), ("g", "Gelu", 2.0), ("b", "Add", 1.0))
    difference = compare(model, reference)
    assert (difference.new, difference.gone) == (("p", "q"), ("g",))
    assert (difference.places[0].name, difference.places[0].nodes, difference.places[0].gone) == (
        "q",
        ("p", "q"),
        ("g",),
    )
    assert (difference.places[0].seconds, difference.places[0].reference, difference.places[0].share) == (4.0, 2.0, 1.0)
    assert [(share.name, share.share) for share in difference.operators] == [
        ("Erf", 1.5), ("Mul", 0.5), ("Add", 0.0), ("MatMul", 0.0), ("Gelu", -1.0)
    ]  # fmt: skip


def test_names_that_changed_are_lined_up_by_type_and_shape() -> None:
    difference = compare(
        times(("1", "MatMul", 1.0), ("2", "Tanh", 5.0), ("3", "MatMul", 1.0)),
        times(("x", "MatMul", 1.0), ("y", "Tanh", 1.0), ("z", "MatMul", 1.0)),
    )
    assert (difference.new, difference.gone) == ((), ())
    assert [(share.name, share.gone, share.share) for share in difference.places[:1]] == [("2", ("y",), 1.0)]


def test_a_name_that_now_means_another_operator_is_not_the_same_node() -> None:
    difference = compare(times(("a", "MatMul", 2.0)), times(("a", "Tanh", 1.0)))
    assert (difference.new, difference.gone) == (("a",), ("a",))
    assert [(share.nodes, share.gone) for share in difference.places] == [(("a",), ("a",))]


def test_a_provider_that_changed_is_said() -> None:
    difference = compare(times(("a", "MatMul", 2.0, CPU)), times(("a", "MatMul", 1.0, GPU)))
    assert difference.places[0].provider == f"{GPU} -> {CPU}"


def test_equal_profiles_explain_nothing() -> None:
    same = times(("a", "MatMul", 2.0))
    assert [share.share for share in compare(same, same).places] == [0.0]


def test_what_is_new_or_gone_moved_to_no_provider() -> None:
    difference = compare(times(("a", "MatMul", 2.0), ("n", "Tanh", 1.0)), times(("a", "MatMul", 1.0)))
    assert [(share.name, share.provider) for share in difference.places] == [("a", ""), ("n", "")]
    back = compare(times(("a", "MatMul", 1.0)), times(("a", "MatMul", 1.0), ("n", "Tanh", 1.0)))
    assert [(share.name, share.provider) for share in back.operators] == [("MatMul", ""), ("Tanh", "")]


def test_shares_of_a_model_that_got_faster() -> None:
    difference = compare(
        times(("a", "MatMul", 1.0), ("b", "Tanh", 2.0)), times(("a", "MatMul", 4.0), ("b", "Tanh", 1.0))
    )
    assert difference.seconds == -2.0
    assert [(share.name, share.share) for share in difference.places] == [("b", -0.5), ("a", 1.5)]
