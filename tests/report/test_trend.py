"""History as people read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orun.core.metrics import Better
from orun.history import Series, group_points
from orun.history.changes import find_changes
from orun.report.terminal import Terminal
from orun.report.trend import draw_sparkline, format_detail, format_markdown, format_overview, format_shift
from tests.history.support import NOW, nightly, point

LEVELS = [0.00800, 0.00802, 0.00799, 0.00801, 0.00803, 0.00800, 0.00850, 0.00852, 0.00849, 0.00851, 0.00850, 0.00853]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([1.0], "▅"),
        ([3.0, 3.0], "▅▅"),
        ([0.0, 1.0, 7.0, float("nan")], "▁▂█x"),
        ([-1.7e308, 0.0, 1.7e308], "▁▅█"),
    ],
)
def test_a_sparkline_has_a_mark_for_each_value(values: list[float], line: str) -> None:
    assert draw_sparkline(values) == line


def test_a_change_from_nothing_is_no_share_of_it() -> None:
    series = nightly([0.0, 0.0, 2.0], noise="none")
    assert format_shift(find_changes(series)[0], series) == "0 s -> 2 s"
    series = nightly([2.0, 0.0, 0.0], noise="none")
    assert format_shift(find_changes(series)[0], series) == "2 s -> 0 s (-100.0 %)"


def test_the_newest_values_are_shown() -> None:
    assert draw_sparkline([5.0, *range(40)]) == draw_sparkline(list(map(float, range(40))))
    assert len(draw_sparkline([1.0] * 60)) == 40


def test_the_overview_has_a_line_for_each_series() -> None:
    other = Series((point(0.0091, NOW - 60, machine="fedcba987654"),))
    assert "\n".join(format_overview([nightly(LEVELS), other], NOW, Terminal())) == (
        """\
pipeline  metric       host                         trend          latest  when          last change
bert      latency.p50  builder (0123456789ab)  12x  ▁▁▁▁▂▁██▇███  8.53 ms  1 day ago     8 ms -> 8.51 ms (+6.2 %)
bert      latency.p50  builder (fedcba987654)   1x  ▅              9.1 ms  1 minute ago"""
    )


def test_of_many_changes_the_newest_are_listed() -> None:
    series = nightly([0.001, 0.002, 0.003, 0.004], noise="none")
    title, _, *lines = format_detail(series, NOW, Terminal(), 2)
    assert title.endswith(": 4 measurements")
    assert lines[0] == "1 change before these"
    assert [line.split(": ")[1].partition(" (")[0] for line in lines[1:3]] == ["2 ms -> 3 ms", "3 ms -> 4 ms"]
    assert lines[3] == ""


def test_the_detail_of_a_series_has_its_changes_and_its_newest_values() -> None:
    series = nightly(LEVELS)
    last = replace(series.last, low=0.0084, high=0.0086)
    shown = format_detail(Series((*series.points[:-1], last)), NOW, Terminal(), 2)
    assert "\n".join(shown) == (
        """\
bert latency.p50 on builder (0123456789ab): 12 measurements
▁▁▁▁▂▁██▇███
changed 2026-09-15 14:13: 8 ms -> 8.51 ms (+6.2 %), p = 0.004, from run run-1789481600 on

measured (UTC)      value  95 % interval     to the one before  age         run
2026-09-19 14:13   8.5 ms                               -0.1 %  2 days ago  run-1789827200
2026-09-20 14:13  8.53 ms  8.4 ms to 8.6 ms             +0.4 %  1 day ago   run-1789913600"""
    )


def test_a_change_that_came_with_another_runtime_says_so() -> None:
    points = nightly(LEVELS).points
    versions = ["onnxruntime 1.24.1"] * 6 + ["onnxruntime 1.31.1"] * 6
    series = Series(tuple(replace(point, runtime=version) for point, version in zip(points, versions, strict=True)))
    ending = ", the first with onnxruntime 1.31.1 after onnxruntime 1.24.1"
    assert format_detail(series, NOW, Terminal(), 2)[2].endswith(f" from run run-1789481600 on{ending}")
    assert format_markdown([series]).endswith(f" on 2026-09-15 14:13{ending} |\n")


def test_what_was_measured_once_has_no_trend() -> None:
    once = Series((point(0.0091, NOW - 60, machine="fedcba987654"),))
    assert format_markdown([once]) == ""
    lines = format_markdown([nightly(LEVELS), once]).splitlines()
    assert lines[1:3] == ["### Trend on this machine", ""]
    assert lines[5:] == [
        "| latency.p50 | 12x | ▁▁▁▁▂▁██▇███ | 8.53 ms | 8 ms -\\> 8.51 ms (+6.2 %) on 2026-09-15 14:13 |",
    ]


@pytest.mark.parametrize(("better", "colour"), [("lower", "1;31"), ("higher", "32"), ("neither", "")])
def test_a_change_for_the_worse_is_red(better: Better, colour: str) -> None:
    series = Series(tuple(replace(point, better=better) for point in nightly(LEVELS).points))
    text = "8 ms -> 8.51 ms (+6.2 %)"
    painted = f"\x1b[{colour}m{text}\x1b[0m" if colour else text
    assert painted in format_overview([series], NOW, Terminal(colour=True))[1]
    assert f": {painted}, p = " in format_detail(series, NOW, Terminal(colour=True), 2)[2]


def test_machines_are_never_put_into_one_series() -> None:
    points = [point(1.0, 1), point(2.0, 2, machine="b" * 12), point(3.0, 3)]
    assert [series.values for series in group_points(points)] == [(1.0, 3.0), (2.0,)]
