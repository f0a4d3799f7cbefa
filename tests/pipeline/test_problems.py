from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.source_location import Position, Problem
from orun.errors import PipelineError
from orun.pipeline.problems import LIMIT, Problems, render
from orun.text.positions import OVERRIDE
from orun.text.suggestions import find_closest, format_choices
from tests.pipeline.support import span

BAD = Problem(
    Position("p.yaml", 12, 7),
    "'per_chanel' is not a parameter of quantize/dynamic",
    source="      per_chanel: true",
    width=10,
    expected="one of per_channel, reduce_range",
    suggestion="per_channel",
    hint="orun stages quantize/dynamic",
)


def test_a_problem_with_all_its_parts() -> None:
    assert render([BAD]) == (
        "p.yaml:12:7: error: 'per_chanel' is not a parameter of quantize/dynamic\n"
        "   12 |       per_chanel: true\n"
        "      |       ^^^^^^^^^^\n"
        "  did you mean: per_channel\n"
        "  expected: one of per_channel, reduce_range\n"
        "  hint: orun stages quantize/dynamic"
    )


def test_colours_mark_the_parts() -> None:
    assert render([BAD], colour=True).splitlines()[:3] == [
        "\x1b[1mp.yaml:12:7:\x1b[0m \x1b[1;31merror:\x1b[0m 'per_chanel' is not a parameter of quantize/dynamic",
        "   12 |       per_chanel: true",
        "      |       \x1b[31m^^^^^^^^^^\x1b[0m",
    ]


def test_several_problems_stand_apart() -> None:
    other = Problem(Position("q.yaml", 1, 1), "the file is empty")
    assert render([other, other]) == "q.yaml:1:1: error: the file is empty\n\nq.yaml:1:1: error: the file is empty"


def test_files_below_the_working_folder_are_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside = Problem(Position(str(tmp_path / "a" / "p.yaml"), 1, 2), "x")
    outside = Problem(Position(str(tmp_path.parent / "p.yaml"), 1, 2), "x")
    assert render([inside]) == "a/p.yaml:1:2: error: x"
    assert render([outside]) == f"{tmp_path.parent}/p.yaml:1:2: error: x"


def test_a_value_of_the_command_line_has_no_line() -> None:
    problem = Problem(Position(OVERRIDE, 2, 6), "there is no variable 'x'", source="vars.x=1", width=1)
    assert render([problem]) == "--set: error: there is no variable 'x'\n      | vars.x=1\n      |      ^"


def test_the_caret_stands_below_wide_letters_and_tabs() -> None:
    problem = Problem(Position("p.yaml", 1, 5), "x", source="名\té: bad", width=1)
    assert render([problem]).splitlines()[1:] == ["    1 | 名\té: bad", "      |   \t  ^"]


def test_of_a_very_long_line_the_part_round_the_caret_is_shown() -> None:
    problem = Problem(Position("p.yaml", 1, 1001), "x", source="a" * 1000 + "!" + "b" * 1000, width=1)
    _, shown, caret = render([problem]).splitlines()
    assert shown == "    1 | " + "a" * 80 + "!" + "b" * 79
    assert caret == "      | " + " " * 80 + "^"


def test_long_expectations_are_wrapped() -> None:
    problem = Problem(Position("p.yaml", 1, 1), "x", expected="one of " + ", ".join(["parameter"] * 12))
    assert render([problem]).splitlines()[1:] == [
        "  expected: one of parameter, parameter, parameter, parameter, parameter, parameter, parameter, parameter,",
        "    parameter, parameter, parameter, parameter",
    ]


def test_a_problem_is_noted_once() -> None:
    problems = Problems()
    for _ in range(2):
        problems.add(span(), "wrong")
    assert len(problems) == 1
    assert problems.list_positions() == {Position("p.yaml", 1, 1)}


def test_too_many_problems_end_it() -> None:
    problems = Problems()
    for line in range(1, LIMIT):
        problems.add(span(line=line), "wrong")
    with pytest.raises(PipelineError) as caught:
        problems.add(span(line=LIMIT), "wrong")
    assert len(caught.value.problems) == LIMIT


def test_nothing_found_raises_nothing() -> None:
    Problems().check()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("per_chanel", "per_channel"),
        ("PER_CHANNEL", "per_channel"),
        ("CUDA", "CUDAExecutionProvider"),
        ("colour", ""),
        ("CU", ""),
    ],
)
def test_the_closest_word_is_what_was_meant(word: str, meant: str) -> None:
    assert find_closest(word, ["per_channel", "reduce_range", "CUDAExecutionProvider", "CPUExecutionProvider"]) == meant


def test_choices_are_listed_as_people_do() -> None:
    assert format_choices([]) == ""
    assert format_choices(["a"]) == "a"
    assert format_choices(["a", "b"]) == "a or b"
    assert format_choices(["a", "b", "c"]) == "one of a, b, c"
