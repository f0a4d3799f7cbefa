"""Gates and trends as drawings, and what was found out about a failed gate."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from orun.blame.diagnosis import Diagnosis, Level, Place
from orun.core.metrics import Estimate, Unit
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.history.points import Series
from orun.report.document import dumps
from orun.report.html.chart import Axis, Scale
from orun.report.html.limits import parse_limit
from orun.report.html.page import render_page
from orun.report.html.templating import assign_anchors, escape_invisible, render_code, render_prose
from tests.report.pages import Element, read, titles
from tests.report.support import COSINE, GATE_FAILED, HOUR, NOW, P50, PASSED, SLOWER, SPEEDUP, STEPPED, series


def drawing_of(verdict: Verdict) -> Element:
    (element,) = read(render_page(replace(PASSED, verdicts=(verdict,)))).at("gates").every("svg")
    return element


@pytest.mark.parametrize(
    ("threshold", "unit", "limit"),
    [("12ms", "s", 0.012), ("25MB", "B", 25e6), ("5%", "ratio", 0.05), ("0.95", "ratio", 0.95), ("1.5x", "x", 1.5),
     ("1.2", "x", 1.2), ("90/s", "1/s", 90.0), ("0.97", "", 0.97), ("97%", "", 0.97),
     ("", "s", None), ("soon", "", None)],
)  # fmt: skip
def test_the_threshold_in_the_unit_of_the_measurement(threshold: str, unit: str, limit: float | None) -> None:
    assert parse_limit(replace(COSINE, threshold=threshold, unit=unit)) == limit


def test_a_gate_is_drawn_with_its_interval_against_the_threshold() -> None:
    drawing = drawing_of(SLOWER)
    assert drawing.only("title").text == "latency p50 max_regression 5%: 8.1 % worse (6.2 % to 9.9 %), failed"
    scale = Scale(-0.12 * 0.099, 1.12 * 0.099)  # no regression is on it, too
    allowed, bar, dot = drawing.only("rect", "allowed"), drawing.only("rect", "bar"), drawing.only("circle")
    assert (allowed.attributes["x"], allowed.attributes["width"]) == ("0%", scale.locate(0.05))
    assert bar.attributes["x"] == scale.locate(0.062)
    assert dot.attributes["cx"] == scale.locate(0.081)
    assert drawing.only("line", "nothing").attributes["x1"] == scale.locate(0.0)
    assert drawing.only("text", "tick").text == "5%"


def test_a_minimum_allows_what_lies_above_it() -> None:
    drawing = drawing_of(SPEEDUP)
    allowed = drawing.only("rect", "allowed").attributes
    assert [element.text for element in drawing.every("text", "tick")] == ["0", "1.5"]  # the scale begins at 0
    assert float(allowed["x"].rstrip("%")) + float(allowed["width"].rstrip("%")) == pytest.approx(100)


def test_values_that_lie_close_are_told_apart() -> None:
    drawing = drawing_of(replace(COSINE, measured=0.9701))
    assert [element.text for element in drawing.every("text", "tick")] == ["0.97"]
    dot, line = drawing.only("circle").attributes["cx"], drawing.only("line", "limit").attributes["x1"]
    assert float(dot.rstrip("%")) - float(line.rstrip("%")) > 50


def test_an_interval_without_an_end_reaches_the_edge() -> None:
    bar = drawing_of(replace(P50, interval=Estimate(0.012, -math.inf, math.inf))).only("rect", "bar").attributes
    assert (bar["x"], bar["width"]) == ("0%", "100%")


@pytest.mark.parametrize("value", [None, math.nan])
def test_nothing_is_drawn_where_nothing_was_measured(value: float | None) -> None:
    assert not read(render_page(replace(PASSED, verdicts=(replace(P50, measured=value),)))).at("gates").every("svg")


@pytest.mark.parametrize("value", [0.0, -1e-300, 1e308, -1e308, math.inf])
def test_extreme_values_have_a_place(value: float) -> None:
    for part in drawing_of(replace(COSINE, measured=value)).every():
        for name in ("x", "cx", "width", "x1"):
            assert 0 <= float(part.attributes.get(name, "0%").rstrip("%")) <= 100


def test_a_scale_keeps_what_is_beyond_at_its_ends() -> None:
    scale = Scale.of([1.0, 2.0, math.inf, math.nan], margin=0.5)
    assert scale == Scale(0.5, 2.5)
    assert [scale.locate(value) for value in (-9.0, 0.5, 1.5, 9.0, math.inf, -math.inf, math.nan)] == [
        "0%", "0%", "50%", "100%", "100%", "0%", "0%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "unit", "ticks"),
    [
        ((0.0, 12.34), "s", ("0 s", "5 s", "10 s", "15 s")),
        ((0.00801, 0.00842), "s", ("8.0 ms", "8.2 ms", "8.4 ms", "8.6 ms")),
        ((90.35e6, 90.42e6), "B", ("90.34 MB", "90.36 MB", "90.38 MB", "90.40 MB", "90.42 MB")),
        ((0.91, 0.935), "ratio", ("91 %", "92 %", "93 %", "94 %")),
        ((0.0, 9.0), "", ("0.0", "2.5", "5.0", "7.5", "10.0")),
        ((1.0, 1.0), "x", ("0.90x", "0.95x", "1.00x", "1.05x", "1.10x")),
        ((math.nan, math.inf), "", ("-1.0", "-0.5", "0.0", "0.5", "1.0")),
        ((-1e308, 1e308), "", ("-1e+308", "1e+308")),
    ],
)
def test_the_ticks_of_an_axis_are_round_and_cover_the_values(
    values: tuple[float, ...], unit: Unit, ticks: tuple[str, ...]
) -> None:
    axis = Axis.of("", values, unit)
    assert tuple(axis.ticks) == ticks


def test_the_trend_of_a_gated_metric_has_its_points_its_threshold_and_where_it_changed() -> None:
    limit = replace(P50, rule="max", threshold="12ms", unit="s", measured=0.01)
    section = read(render_page(replace(PASSED, verdicts=(limit,)), [series(STEPPED)])).at("trends")
    drawing = section.only("svg")
    assert drawing.every("title")[0].text == "latency.p50: 16 measurements between 8 ms and 10 ms"
    assert drawing.only("desc").text == "The level changed: 8.01 ms -> 10 ms (+25.0 %)"
    points = [element for element in drawing.every("path") if element.attributes["class"] in ("point", "last")]
    assert (len(points), points[-1].attributes["class"]) == (16, "last")
    assert points[0].only("title").text == "8 ms in run run0"
    assert [points[number].attributes["d"] for number in (0, 15)] == ["M0.0 1000.0h0", "M1000.0 500.0h0"]
    assert drawing.only("path", "threshold").attributes["d"] == "M0 0.0H1000"
    assert drawing.only("path", "change").attributes["d"] == "M500.0 0V1000"
    axes = [[tick.text for tick in section.only("div", name).every("span")] for name in ("y-axis", "x-axis")]
    assert axes == [["12 ms", "11 ms", "10 ms", "9 ms", "8 ms"], ["2026-09-20", "2026-09-21"]]
    assert [element.text for element in section.every("span", "key")] == ["max 12ms", "the level changed"]


def test_what_was_measured_after_the_run_is_no_part_of_its_report() -> None:
    past = series(STEPPED)
    later = Series((*past.points, replace(past.last, value=1.0, measured_at=NOW + 2 * HOUR, run="later")))
    assert render_page(PASSED, [later]) == render_page(PASSED, [past])


def test_a_single_measurement_is_no_trend() -> None:
    assert "Trend on this machine" not in titles(read(render_page(PASSED, [series([0.008])])))


def test_a_past_that_cannot_be_read_is_told() -> None:
    document = read(render_page(PASSED, (), "the history history.sqlite cannot be used"))
    assert document.at("notices").only("li").text == "?warning the history history.sqlite cannot be used"


def test_the_culprit_is_told_as_on_the_console(tmp_path: Path) -> None:
    places = (Place("/layer.3/MatMul", 0.62, ("/layer.3/MatMul",), "MatMul", tensor="y"),)
    levels = (Level("export", 0.99, passes=True), Level("int8", 0.91, passes=False))
    diagnosis = Diagnosis("accuracy cosine.min min 0.97", "accuracy", "cosine.min", "", "`int8` lost it at one node",
                      levels, "int8", 0.08, places, 1, notes=("by 64 examples",))  # fmt: skip
    (tmp_path / "blame.json").write_text(dumps({"blame": (diagnosis,)}))
    section = read(render_page(replace(GATE_FAILED, folder=tmp_path))).at("culprit")
    assert section.only("h3").text == "accuracy cosine.min min 0.97"
    assert [element.text for element in section.every("p")] == ["int8 lost it at one node", "by 64 examples"]
    assert [[cell.text for cell in line.every("td")] for line in section.every("tr")[1:3]] == [
        ["0.99", "passes"], ["0.91", "fails"],
    ]  # fmt: skip
    assert section.every("table")[1].every("tr")[1].text == "/layer.3/MatMul62 %/layer.3/MatMul"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert escape_invisible("a\tb\nc") == "a\tb\nc"
    assert escape_invisible("\x00\x1b\x7f\x85\u202e\ud800\ufeff\U000e0041") == (
        r"\x00\x1b\x7f\x85\u202e\ud800\ufeff\U000e0041"
    )
    assert render_code("<a>\u202e") == r"<code>&lt;a&gt;\u202e</code>"
    assert render_prose("`a<b` & `c`") == "<code>a&lt;b</code> &amp; <code>c</code>"
    assert render_prose("a ` b") == "a ` b"


def test_ids_are_words_and_no_two_alike() -> None:
    names = ["int8", "int8[a=1]", "int8[a=1", "<b>", "模型", "int8-a-1"]
    assert assign_anchors(names) == {
        "int8": "stage-int8", "int8[a=1]": "stage-int8-a-1", "int8[a=1": "stage-int8-a-1-2", "<b>": "stage-b",
        "模型": "stage-x", "int8-a-1": "stage-int8-a-1-3",
    }  # fmt: skip
