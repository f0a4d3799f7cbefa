"""Two profiles lined up and their difference split, on figures that can be worked out by hand."""

from __future__ import annotations

from orun.diagnosis.profiles import ModelTimes, NodeTime
from orun.diagnosis.slower import compare
from orun.measure.latency.nodes import Node

CPU, GPU = "CPUExecutionProvider", "CUDAExecutionProvider"


def times(*nodes: tuple[str, str, float] | tuple[str, str, float, str]) -> ModelTimes:
    made = [
        NodeTime(Node(str(place), node[0], node[1], node[3] if len(node) > 3 else CPU, "4"), node[2])
        for place, node in enumerate(nodes)
    ]
    return ModelTimes(tuple(made), (), 0.0)


def test_a_node_that_got_slower() -> None:
    found = compare(times(("a", "MatMul", 3.0), ("b", "Tanh", 2.0)), times(("a", "MatMul", 1.0), ("b", "Tanh", 1.5)))
    assert found.seconds == 2.5
    assert [(one.name, one.difference, one.share) for one in found.places] == [("a", 2.0, 0.8), ("b", 0.5, 0.2)]
    assert [(one.name, one.share) for one in found.operators] == [("MatMul", 0.8), ("Tanh", 0.2)]
    assert (found.new, found.gone) == ((), ())


def test_nodes_in_the_place_of_others_are_one_place() -> None:
    model = times(("a", "MatMul", 1.0), ("p", "Mul", 1.0), ("q", "Erf", 3.0), ("b", "Add", 1.0))
    reference = times(("a", "MatMul", 1.0), ("g", "Gelu", 2.0), ("b", "Add", 1.0))
    found = compare(model, reference)
    assert (found.new, found.gone) == (("p", "q"), ("g",))
    assert (found.places[0].name, found.places[0].nodes, found.places[0].gone) == ("q", ("p", "q"), ("g",))
    assert (found.places[0].seconds, found.places[0].reference, found.places[0].share) == (4.0, 2.0, 1.0)
    assert [(one.name, one.share) for one in found.operators] == [
        ("Erf", 1.5), ("Mul", 0.5), ("Add", 0.0), ("MatMul", 0.0), ("Gelu", -1.0)
    ]  # fmt: skip


def test_names_that_changed_are_lined_up_by_type_and_shape() -> None:
    found = compare(
        times(("1", "MatMul", 1.0), ("2", "Tanh", 5.0), ("3", "MatMul", 1.0)),
        times(("x", "MatMul", 1.0), ("y", "Tanh", 1.0), ("z", "MatMul", 1.0)),
    )
    assert (found.new, found.gone) == ((), ())
    assert [(one.name, one.gone, one.share) for one in found.places[:1]] == [("2", ("y",), 1.0)]


def test_a_name_that_now_means_another_operator_is_not_the_same_node() -> None:
    found = compare(times(("a", "MatMul", 2.0)), times(("a", "Tanh", 1.0)))
    assert (found.new, found.gone) == (("a",), ("a",))
    assert [(one.nodes, one.gone) for one in found.places] == [(("a",), ("a",))]


def test_a_provider_that_changed_is_said() -> None:
    found = compare(times(("a", "MatMul", 2.0, CPU)), times(("a", "MatMul", 1.0, GPU)))
    assert found.places[0].provider == f"{GPU} -> {CPU}"


def test_equal_profiles_explain_nothing() -> None:
    same = times(("a", "MatMul", 2.0))
    assert [one.share for one in compare(same, same).places] == [0.0]


def test_what_is_new_or_gone_moved_to_no_provider() -> None:
    found = compare(times(("a", "MatMul", 2.0), ("n", "Tanh", 1.0)), times(("a", "MatMul", 1.0)))
    assert [(one.name, one.provider) for one in found.places] == [("a", ""), ("n", "")]
    back = compare(times(("a", "MatMul", 1.0)), times(("a", "MatMul", 1.0), ("n", "Tanh", 1.0)))
    assert [(one.name, one.provider) for one in back.operators] == [("MatMul", ""), ("Tanh", "")]


def test_shares_of_a_model_that_got_faster() -> None:
    found = compare(times(("a", "MatMul", 1.0), ("b", "Tanh", 2.0)), times(("a", "MatMul", 4.0), ("b", "Tanh", 1.0)))
    assert found.seconds == -2.0
    assert [(one.name, one.share) for one in found.places] == [("b", -0.5), ("a", 1.5)]
