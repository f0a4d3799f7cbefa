"""Tables keep to a width and say everything."""

from __future__ import annotations

from orun.report.table import Cell, Column, measure_width, render, wrap
from orun.report.terminal import Terminal

COLUMNS = (Column("stage"), Column("result", flexible=True), Column("time", "right"))


def lines(rows: list[tuple[str, str, str]], width: int = 120) -> list[str]:
    return render(COLUMNS, [tuple(map(Cell, row)) for row in rows], Terminal(width=width))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert lines([("export", "cached", ""), ("int8", "built: never run before", "8.04 ms")]) == [
        "stage   result                      time",
        "export  cached",
        "int8    built: never run before  8.04 ms",
    ]


def test_a_column_that_is_empty_throughout_is_left_out() -> None:
    assert lines([("export", "cached", ""), ("int8", "cached", "")]) == [
        "stage   result",
        "export  cached",
        "int8    cached",
    ]


def test_without_rows_there_is_no_table() -> None:
    assert lines([]) == []


def test_a_flexible_column_is_wrapped_to_the_width() -> None:
    assert lines([("int8", "built: parameter per_channel: false -> true", "2 s")], width=40) == [
        "stage  result                       time",
        "int8   built: parameter              2 s",
        "       per_channel: false -> true",
    ]


def test_the_widest_flexible_column_gives_way_first() -> None:
    columns = (Column("a", flexible=True), Column("b", flexible=True))
    row = (Cell("one two three four five six seven"), Cell("one two three four"))
    assert render(columns, [row], Terminal(width=40)) == [
        "a                     b",
        "one two three four    one two three four",
        "five six seven",
    ]


def test_a_column_is_never_squeezed_to_nothing() -> None:
    assert lines([("a-stage-with-a-long-name", "built: a reason of several words", "")], width=10) == [
        "stage                     result",
        "a-stage-with-a-long-name  built: a reason",
        "                          of several words",
    ]


def test_a_word_longer_than_its_column_is_cut() -> None:
    assert wrap("see /a/very/long/path here", 8) == ["see", "/a/very/", "long/pat", "h here"]


def test_wrapping_keeps_short_texts_and_empty_ones() -> None:
    assert wrap("short", 8) == ["short"]
    assert wrap("", 8) == [""]


def test_what_is_indented_stays_so() -> None:
    assert wrap("  p50 max 12ms", 8) == ["  p50", "  max", "  12ms"]


def test_a_cell_of_several_lines_is_told_as_one() -> None:
    assert lines([("int8", "failed: one\ntwo", "")]) == ["stage  result", "int8   failed: one two"]


def test_wide_and_combining_characters_take_the_columns_that_they_take() -> None:
    assert measure_width("模型") == 4
    assert measure_width("e\u0301") == 1
    assert lines([("模型", "cached", ""), ("four", "cached", "")]) == [
        "stage  result",
        "模型   cached",
        "four   cached",
    ]
    assert wrap("模型模型", 4) == ["模型", "模型"]


def test_cells_are_painted_and_still_aligned() -> None:
    row = (Cell("int8", "strong"), Cell("failed", "bad"), Cell("2 s"))
    assert render(COLUMNS, [row], Terminal(colour=True)) == [
        "\x1b[2mstage\x1b[0m  \x1b[2mresult\x1b[0m  \x1b[2mtime\x1b[0m",
        "\x1b[1mint8\x1b[0m   \x1b[1;31mfailed\x1b[0m   2 s",
    ]
