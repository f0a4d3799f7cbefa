"""The graph of stages: its layers, its order, and what is drawn of it."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from orun.core.run_record import StageResult
from orun.core.serialization import replace
from orun.report.html.graph import FOLDED, MOST
from orun.report.html.graph_layout import Layout, lay_out
from orun.report.html.page import render_page
from tests.report.pages import Element, read
from tests.report.support import GATE_FAILED, PASSED, linked, matrix

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def crossings(layout: Layout) -> int:
    """Pairs of edges that cross, of the pieces between neighbouring layers."""
    pieces = [piece for route in layout.routes.values() for piece in pairwise(route)]
    return sum(
        first[0][0] == other[0][0] and (first[0][1] - other[0][1]) * (first[1][1] - other[1][1]) < 0
        for first, other in combinations(pieces, 2)
    )


def test_each_node_stands_in_the_layer_after_all_that_it_needs() -> None:
    layout = lay_out(DIAMOND)
    assert layout.places == {"a": (0, 0.5), "b": (1, 0.0), "c": (1, 1.0), "d": (2, 0.5)}
    assert (layout.layers, layout.breadth) == (3, 1.0)


def test_an_edge_over_layers_goes_past_the_nodes_between() -> None:
    layout = lay_out({"a": (), "b": ("a",), "c": ("b", "a")})
    (_, bend, _) = layout.routes["a", "c"]
    assert bend[0] == 1
    assert abs(bend[1] - layout.places["b"][1]) >= 0.67


def test_what_needs_nothing_stands_right_before_what_needs_it() -> None:
    layout = lay_out({"a": (), "late": (), "b": ("a",), "c": ("b", "late")})
    assert layout.places["late"][0] == 1


def test_crossings_are_taken_out_where_they_can_be() -> None:
    crossed = {"a": (), "b": (), "c": (), "x": ("c",), "y": ("b",), "z": ("a",), "end": ("z", "y", "x")}
    assert crossings(lay_out(crossed)) == 0


def test_a_graph_of_nothing() -> None:
    assert lay_out({}) == Layout({}, {}, 0, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_never_overlap_and_edges_run_forward(seed: int) -> None:
    chance = random.Random(seed)
    names = [str(number) for number in range(60)]
    needs = {
        name: tuple(chance.sample(names[:number], min(number, chance.randrange(4))))
        for number, name in enumerate(names)
    }
    layout = lay_out(needs)
    assert layout == lay_out(needs)
    rows: dict[int, list[float]] = {}
    for layer, place in layout.places.values():
        rows.setdefault(layer, []).append(place)
    for row in rows.values():
        assert all(after - before > 1 - 1e-9 for before, after in pairwise(sorted(row)))
        assert min(row) >= 0
        assert max(row) <= layout.breadth + 1e-9
    for (source, name), route in layout.routes.items():
        assert (route[0], route[-1]) == (layout.places[source], layout.places[name])
        assert all(after[0] == before[0] + 1 for before, after in pairwise(route))


def graph_of(stages: tuple[StageResult, ...]) -> Element:
    return read(render_page(replace(PASSED, stages=stages, verdicts=()))).at("graph")


def test_each_stage_is_drawn_with_its_outcome_and_leads_to_its_row() -> None:
    drawing = read(render_page(linked(GATE_FAILED))).at("graph").only("svg")
    nodes = [
        (link.attributes["href"], link.only("text", "name").text, link.only("text", "caption").text)
        for link in drawing.every("a")
    ]
    assert nodes == [
        ("#stage-export", "export", "cached (12.1 s)"),
        ("#stage-int8", "int8", "built, 3.25 s"),
        ("#stage-accuracy", "accuracy", "built, 6.5 s"),
        ("#stage-latency", "latency", "cached (19 s)"),
        ("#stage-release", "release", "blocked"),
    ]
    assert len(drawing.every("path", "edge")) == 6
    assert [element.attributes["class"] for element in drawing.every("g")] == [
        "node dim cached", "node good built", "node good built", "node dim cached", "node doubt blocked",
    ]  # fmt: skip


def test_sixty_stages_are_drawn_a_line_each() -> None:
    section = graph_of(matrix(59))
    drawing = section.only("svg")
    assert not section.every("details")
    assert (float(drawing.attributes["width"]) < 1040, float(drawing.attributes["height"]) < 2000) == (True, True)
    assert drawing.every("text", "name")[1].text == "int8[per_ch\u2026l=true,size=0]"
    assert [element.text for element in drawing.every("text", "caption")][:2] == ["built", "cached"]
    assert drawing.every("g")[1].only("title").text == "int8[per_channel=true,size=0] (quantize/dynamic): cached"


def test_a_long_chain_is_drawn_from_top_to_bottom() -> None:
    names = [f"stage{number}" for number in range(20)]
    stages = [StageResult(name, "kind", "cached", needs=(names[number - 1],) if number else ()) for number, name in
              enumerate(names)]  # fmt: skip
    drawing = graph_of(tuple(stages)).only("svg")
    assert float(drawing.attributes["width"]) < 200
    assert float(drawing.attributes["height"]) > 1000


def test_many_stages_are_drawn_when_one_asks() -> None:
    assert graph_of(matrix(FOLDED)).only("summary").text == "Drawing of 151 stages"


def test_of_more_stages_there_is_no_drawing_and_the_page_says_so() -> None:
    section = graph_of(matrix(MOST))
    assert not section.every("svg")
    assert section.only("p").text == "401 stages are too many for a drawing; the table below says what each needs."


def test_stages_that_need_nothing_have_no_graph() -> None:
    assert "Graph" not in render_page(PASSED)
