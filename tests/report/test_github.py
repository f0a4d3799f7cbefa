"""Annotations of GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.run_record import ChangedSetting
from orun.core.serialization import replace
from orun.core.source_location import Position, Problem
from orun.errors import PipelineError
from orun.report.github import format_commands, format_mistakes

from .support import GATE_FAILED, PASSED, crashed


def test_nothing_to_say() -> None:
    assert format_commands(PASSED) == []


def test_what_fails_comes_first_and_each_at_its_line() -> None:
    failed, undecided = format_commands(GATE_FAILED)
    assert failed == (
        "::error file=pipelines/bert.yaml,line=37,col=7,title=gate failed%3A latency p50 max_regression 5%25::"
        "8.1 %25 slower than the accepted baseline (6.2 %25 to 9.9 %25), 5%25 allowed%0A"
        "hint: if the change is meant, accept it as the new baseline: "
        "orun pipelines/bert.yaml; orun baseline accept pipelines/bert.yaml"
    )
    assert undecided == (
        "::warning file=pipelines/bert.yaml,line=32,col=7,title=gate undecided%3A accuracy recall_at_1 max_drop 1%25::"
        "the drop is 0.9 %25 (-0.3 %25 to 2.1 %25), 1%25 allowed: 2100 more examples would decide it"
    )


def test_a_failed_gate_says_what_changed_since_the_accepted_release() -> None:
    changes = [ChangedSetting("int8", "per_channel", "true", "false"), ChangedSetting("int8", "uses", "a/b", "c/d")]
    failed, undecided = format_commands(replace(GATE_FAILED, changed_settings=tuple(changes)))
    note = "since the accepted release: int8.per_channel true -> false, int8.uses a/b -> c/d"
    assert failed == (
        "::error file=pipelines/bert.yaml,line=37,col=7,title=gate failed%3A latency p50 max_regression 5%25::"
        f"8.1 %25 slower than the accepted baseline (6.2 %25 to 9.9 %25), 5%25 allowed%0A{note}%0A"
        "hint: if the change is meant, accept it as the new baseline: "
        "orun pipelines/bert.yaml; orun baseline accept pipelines/bert.yaml"
    )
    assert undecided.endswith(f"2100 more examples would decide it%0A{note}")
    assert format_commands(replace(PASSED, changed_settings=tuple(changes))) == []


def test_a_failed_stage_is_at_its_own_line(tmp_path: Path) -> None:
    failed = replace(crashed(tmp_path / "log")["int8"], position=Position("pipelines/bert.yaml", 20, 3))
    (line,) = format_commands(replace(PASSED, exit_code=3, stages=(failed,), verdicts=()))
    assert line == (
        "::error file=pipelines/bert.yaml,line=20,col=3,title=stage int8 failed::"
        "stage int8 failed: its process died of signal 11 (SIGSEGV)%0A  nothing of it was stored%0A"
        f"  hint: orun pipelines/bert.yaml --only int8%0A  log: {tmp_path / 'log'}"
    )


def test_files_are_named_from_the_top_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", "/home/runner/checkout")
    verdict = replace(GATE_FAILED.verdicts[2], position=Position("/home/runner/checkout/models/a,b.yaml", 3, 9))
    (line,) = format_commands(replace(PASSED, verdicts=(verdict,)))
    assert line.startswith("::error file=models/a%2Cb.yaml,line=3,col=9,")
    outside = replace(verdict, position=Position("/home/shared/base.yaml", 3, 9))
    (line,) = format_commands(replace(PASSED, verdicts=(outside,)))
    assert line.startswith("::error file=/home/shared/base.yaml,line=3,col=9,")


def test_mistakes_of_a_file() -> None:
    problem = Problem(
        Position("bert.yaml", 4, 5), "no key 'wiht'", expected="uses or with", suggestion="with", hint="orun schema"
    )
    assert format_mistakes(PipelineError([problem])) == [
        (
            "::error file=bert.yaml,line=4,col=5,title=pipeline file::no key 'wiht'%0A"
            "did you mean: with%0Aexpected: uses or with%0Ahint: orun schema"
        )
    ]


@pytest.mark.parametrize(("gates", "shown", "left"), [(10, 10, ""), (11, 9, "2"), (14, 9, "5")])
def test_github_shows_ten_errors_of_a_step_so_that_the_last_one_counts_the_others(
    gates: int, shown: int, left: str
) -> None:
    """The last four of fourteen were lost without a word."""
    _, undecided = format_commands(GATE_FAILED)
    verdicts = [verdict for verdict in GATE_FAILED.verdicts if verdict.outcome in ("failed", "undecided")]
    assert [verdict.outcome for verdict in verdicts] == ["undecided", "failed"]
    failed = [replace(verdicts[1], position=Position("bert.yaml", line, 7)) for line in range(gates)]
    lines = format_commands(replace(GATE_FAILED, verdicts=(verdicts[0], *failed)))
    places = [line.partition(",col=")[0] for line in lines[:shown]]
    assert places == [f"::error file=bert.yaml,line={line}" for line in range(shown)]
    last = [f"::error title=and {left} more errors::the step summary has them all"] if left else []
    assert lines[shown:] == [*last, undecided]


def test_of_many_mistakes_the_log_has_all() -> None:
    problems = [Problem(Position("bert.yaml", line, 5), "no key 'wiht'") for line in range(12)]
    lines = format_mistakes(PipelineError(problems))
    assert lines[8:] == [
        "::error file=bert.yaml,line=8,col=5,title=pipeline file::no key 'wiht'",
        "::error title=and 3 more errors::the log of the step has them all",
    ]


def test_a_result_from_before_places_were_kept(tmp_path: Path) -> None:
    (line,) = format_commands(crashed(tmp_path / "log"))
    assert line.startswith("::error file=pipelines/bert.yaml,line=1,col=1,")
