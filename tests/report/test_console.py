"""Whole reports of runs, as people see them."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from orun.core.events import (
    Event,
    GateJudged,
    Notice,
    RunFinished,
    RunStarted,
    StageFinished,
    StageProgress,
    StageStarted,
    StageWaiting,
)
from orun.core.metrics import Estimate
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import StageResult
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.report.console import Console, Detail
from orun.report.terminal import Terminal
from tests.facts import reasons_of

from .support import (
    ACCURACY,
    EXPORT,
    GATE_FAILED,
    INT8,
    LATENCY,
    NO_BASELINE,
    PASSED,
    RECALL,
    RELEASE,
    SPEEDUP,
    UNSURE,
    crashed,
    result_lines,
)

NAMES = tuple(stage.stage for stage in PASSED.stages)
EVENTS: tuple[Event, ...] = (
    RunStarted(PASSED.run, "bert", "pipelines/bert.yaml", NAMES, 2, PASSED.started_at, {}, PASSED.folder),
    StageFinished(EXPORT),
    StageStarted("int8", INT8.reasons, "int8.log", 3.4),
    StageProgress("int8", 3, 10, "quantizing"),
    Notice("warning", "object 1f3c is damaged: moved aside, its stage runs again"),
    StageFinished(INT8),
    StageStarted("accuracy", reasons_of("never run before"), "accuracy.log", None),
    StageWaiting("latency", "another orun measures"),
    StageFinished(ACCURACY),
    StageFinished(LATENCY),
    GateJudged(SPEEDUP),
    StageStarted("release", RELEASE.reasons, "release.log", 0.1),
    StageFinished(RELEASE),
    RunFinished(0, 12.34),
)


def shown(detail: Detail = "normal") -> str:
    """What the events of a run leave on a plain stream."""
    stream = io.StringIO()
    console = Console(stream, Terminal(), detail)
    for event in EVENTS:
        console(event)
    return stream.getvalue()


def test_lines_while_it_runs() -> None:
    assert shown() == (
        "int8      running: parameter per_channel: false -> true (and 1 more) (took 3.4 s last time)\n"
        "warning: object 1f3c is damaged: moved aside, its stage runs again\n"
        "int8      built in 3.25 s, 22.9 MB\n"
        "accuracy  running: never run before\n"
        "latency   waiting for another orun measures\n"
        "accuracy  built in 6.5 s, 1.2 kB\n"
        "latency   cached\n"
        "release   running: input model changed (from int8) (took 100 ms last time)\n"
        "release   built in 112 ms, 23 MB\n"
    )


def test_verbose_lines_say_every_reason() -> None:
    line = shown("verbose").splitlines()[0]
    assert line == "int8      running: parameter per_channel: false -> true; stage code changed (took 3.4 s last time)"


def test_quiet_says_nothing_while_it_runs() -> None:
    assert shown("quiet") == ""


def test_a_failed_stage_is_told_at_once() -> None:
    stream = io.StringIO()
    console = Console(stream, Terminal())
    console(RunStarted("id", "bert", "bert.yaml", NAMES, 2, 0.0, {}, Path("runs/id")))
    console(StageFinished(crashed(Path("int8.log"))["int8"]))
    assert stream.getvalue() == "int8      failed: its process died of signal 11 (SIGSEGV)\n"


def test_a_run_that_passed() -> None:
    assert "\n".join(result_lines(PASSED, Terminal())) == (
        """\
stage     result                                           time     size  metrics
export    cached                                                 90.4 MB
int8      built: parameter per_channel: false -> true    3.25 s  22.9 MB  nodes 311
          (and 1 more)
accuracy  built: input model changed (from int8)          6.5 s   1.2 kB  cosine.min 0.9812, recall_at_1 91.3 %,
                                                                          cosine.mean 0.9931
latency   cached, measured 3 hours ago                            3.4 kB  p50 8.04 ms, speedup 2.15x
release   built: input model changed (from int8)         112 ms    23 MB

gate                     measured  95 % interval    threshold          verdict
accuracy cosine.min        0.9812                   min 0.97           passed
accuracy recall_at_1   0.2 % drop  -0.4 % to 0.8 %  max_drop 1%        passed
latency p50           1.2 % worse  -0.4 % to 2.8 %  max_regression 5%  passed
latency speedup             2.15x  2.11x to 2.20x   min 1.5            passed

passed: 5 stages (3 built, 2 cached), 4 gates passed, 12.3 s; results in artifacts/out/bert"""
    )


def test_a_run_whose_gate_failed() -> None:
    assert "\n".join(result_lines(GATE_FAILED, Terminal())) == (
        """\
stage     result                                           time     size  metrics
export    cached                                                 90.4 MB
int8      built: parameter per_channel: false -> true    3.25 s  22.9 MB  nodes 311
          (and 1 more)
accuracy  built: input model changed (from int8)          6.5 s   1.2 kB  cosine.min 0.9812, recall_at_1 91.3 %,
                                                                          cosine.mean 0.9931
latency   cached, measured 3 hours ago                            3.4 kB  p50 8.04 ms, speedup 2.15x
release   blocked: a gate of latency failed

gate                     measured  95 % interval    threshold          verdict
accuracy cosine.min        0.9812                   min 0.97           passed
accuracy recall_at_1   0.9 % drop  -0.3 % to 2.1 %  max_drop 1%        undecided
latency p50           8.1 % worse  6.2 % to 9.9 %   max_regression 5%  failed
latency speedup             2.15x  2.11x to 2.20x   min 1.5            passed

pipelines/bert.yaml:32:7: gate undecided: accuracy recall_at_1 max_drop 1%: \
the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it
pipelines/bert.yaml:37:7: gate failed: latency p50 max_regression 5%: \
8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed
  hint: if the change is meant, accept it as the new baseline: orun baseline accept pipelines/bert.yaml

failed: 5 stages (1 blocked, 2 built, 2 cached), 2 of 4 gates passed, 1 failed, 1 undecided, 12.3 s; exit 1"""
    )


def test_quiet_shows_what_fails_and_the_last_line() -> None:
    lines = result_lines(GATE_FAILED, Terminal())
    assert result_lines(GATE_FAILED, Terminal(), "quiet") == lines[-4:]
    assert lines[-4].startswith("pipelines/bert.yaml:37:7: gate failed: latency p50 max_regression 5%: ")


def test_a_run_of_which_a_stage_died(tmp_path: Path) -> None:
    log = tmp_path / "int8.log"
    log.write_text("\n".join(f"line {number}" for number in range(1, 40)) + "\n\x1b[31mSegmentation fault\x1b[0m\n\n")
    tail = "\n".join(f"  | line {number}" for number in range(26, 40))
    assert "\n".join(result_lines(crashed(log), Terminal())) == (
        f"""\
stage     result                                              size
export    cached                                           90.4 MB
int8      failed: its process died of signal 11 (SIGSEGV)
accuracy  blocked: int8 failed
latency   blocked: int8 failed
release   blocked: int8 failed

stage int8 failed: its process died of signal 11 (SIGSEGV)
  nothing of it was stored
  hint: orun pipelines/bert.yaml --only int8
  log: {log}
  last 15 lines of its log:
{tail}
  | Segmentation fault

failed: 5 stages (1 failed, 3 blocked, 1 cached), 12.3 s; exit 3"""
    )


def test_verbose_adds_reasons_keys_and_digests() -> None:
    stages = (EXPORT, replace(INT8, metrics={}))
    assert result_lines(replace(PASSED, stages=stages, verdicts=()), Terminal(width=94), "verbose") == [
        "stage   result                                       time     size  key           artifact",
        "export  cached: up to date                                 90.4 MB  eeeeeeeeeeee  111111111111",
        "int8    built: parameter per_channel: false ->     3.25 s  22.9 MB  aaaaaaaaaaaa  222222222222",
        "        true; stage code changed",
        "",
        "done: 2 stages (1 built, 1 cached), no gates, 12.3 s; results in artifacts/out/bert",
    ]


def test_colours_mark_outcomes() -> None:
    lines = result_lines(replace(GATE_FAILED, stages=(EXPORT,)), Terminal(colour=True))
    assert lines[1] == "\x1b[1mexport\x1b[0m  \x1b[2mcached\x1b[0m  90.4 MB"
    assert lines[-2:] == [
        "",
        "\x1b[1;31mfailed\x1b[0m: 1 stage (1 cached), 2 of 4 gates passed, 1 failed, 1 undecided, 12.3 s; exit 1",
    ]
    assert lines[4].endswith("\x1b[32mpassed\x1b[0m")
    assert lines[5].endswith("\x1b[33mundecided\x1b[0m")
    assert lines[6].endswith("\x1b[1;31mfailed\x1b[0m")


def test_interrupted() -> None:
    stopped = replace(PASSED, exit_code=130, stages=(EXPORT, INT8), verdicts=())
    assert result_lines(stopped, Terminal(), "quiet") == [
        (
            "interrupted: 2 stages (1 built, 1 cached), 12.3 s; exit 130; "
            "what is done is kept; to go on, run the same command again"
        )
    ]


def test_a_stage_that_was_not_asked_for_says_how_to_ask() -> None:
    waiting = StageResult("int8", "quantize/dynamic", "blocked", reasons_of("not up to date, and not asked for"))
    assert result_lines(replace(PASSED, exit_code=3, stages=(waiting,), verdicts=()), Terminal()) == [
        "stage  result",
        "int8   blocked: not up to date, and not asked for",
        "",
        (
            "failed: 1 stage (1 blocked), 12.3 s; exit 3; to run what is missing as well: "
            "orun pipelines/bert.yaml --to int8"
        ),
    ]
    other = replace(PASSED, exit_code=3, stages=(waiting,), verdicts=(), overrides={"seed": "3"})
    assert result_lines(other, Terminal())[-1].endswith(": orun pipelines/bert.yaml --to int8 --set seed=3")
    other = replace(PASSED, exit_code=3, stages=(waiting,), verdicts=(), folder=Path("st9/runs/1"))
    assert result_lines(other, Terminal())[-1].endswith(": orun pipelines/bert.yaml --to int8 --store st9")


def test_the_table_of_gates_is_folded_to_72_columns() -> None:
    """The messages below stay whole: a terminal wraps them, and a log can be searched for them."""
    bounds = Estimate(0.0512, -0.0768, 0.295)
    rows = (
        replace(UNSURE, metric="average_precision[label=3]", scope=" against fused by label", interval=bounds),
        replace(NO_BASELINE, stage="latency[target=tensorrt]", threshold="12.5 %"),
        replace(RECALL, measured=123456.0, unit="s", interval=Estimate(123456.0, 123000.0, 130000.0)),
    )
    result = replace(PASSED, stages=(EXPORT,), verdicts=rows)
    lines = result_lines(result, Terminal(width=72))
    begin = next(number for number, line in enumerate(lines) if line.startswith("gate "))
    table = lines[begin : lines.index("", begin)]
    assert table == [
        "gate                 measured  95 %          threshold       verdict",
        "                               interval",
        "accuracy           0.9 % drop  -7.68 % to    max_drop 1%     undecided",
        "average_precisio               29.5 %        against fused",
        "n[label=3]                                   by label",
        "latency[target=t            -                max_regression  no baseline",
        "ensorrt] p50                                 12.5 %",
        "accuracy          34 h 17 min  34 h 10 min   max_drop 1%     passed",
        "recall_at_1              drop  to 36 h",
        "                               6 min",
    ]
    assert max(map(len, table)) == 72
    assert (
        "pipelines/bert.yaml:37:7: gate without a baseline: latency[target=tensorrt] p50 max_regression 12.5 %: "
        "no baseline yet for `latency`"
    ) in lines


def test_an_undecided_gate_that_must_be_decided() -> None:
    unsure = replace(GATE_FAILED.verdicts[1], fails=True)
    result = replace(PASSED, exit_code=4, verdicts=(unsure,))
    assert result_lines(result, Terminal(), "quiet") == [
        (
            "pipelines/bert.yaml:32:7: gate undecided: accuracy recall_at_1 max_drop 1%: "
            "the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it"
        ),
        "  hint: to see what changed since the run before: orun diff",
        "",
        (
            "undecided: 5 stages (3 built, 2 cached), 0 of 1 gate passed, "
            "1 undecided (accuracy recall_at_1 max_drop 1%), 12.3 s; exit 4"
        ),
    ]


def test_the_file_is_named_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "bert.yaml")
    finding = build_reason(ReasonCode.NO_BASELINE, stage="latency", file=file)
    unsure = replace(GATE_FAILED.verdicts[1], position=Position(file, 37, 7), finding=finding)
    lines = result_lines(replace(PASSED, stages=(), verdicts=(unsure,)), Terminal())
    assert lines[3] == (
        "bert.yaml:37:7: gate undecided: accuracy recall_at_1 max_drop 1%: "
        "no baseline yet for `latency`; to accept this release: `orun baseline accept bert.yaml`"
    )


def test_rich_is_imported_when_a_stage_starts_on_a_terminal_and_not_before() -> None:
    program = """
import io, sys
from orun.core.events import RunStarted, StageFinished, StageStarted
from orun.core.reason import Reason
from orun.core.run_record import StageResult
from orun.report.console import Console
from orun.report.terminal import Terminal

def loads_rich(terminal, *events):
    console = Console(io.StringIO(), terminal)
    for event in events:
        console(event)
    console.close()
    return "rich" in sys.modules

cached = StageFinished(StageResult("export", "convert/onnx", "cached"))
started = StageStarted("export", (Reason("never-run"),), "export.log", None)
print(loads_rich(Terminal(), cached, started))
print(loads_rich(Terminal(live=True), cached))
print(loads_rich(Terminal(live=True), started))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "False\nFalse\nTrue\n"


def test_a_terminal_keeps_the_lines_and_clears_what_was_running() -> None:
    stream = io.StringIO()
    console = Console(stream, Terminal(live=True, width=80))
    for event in EVENTS:
        console(event)
    console.finish(PASSED)
    drawn = stream.getvalue()
    for line in shown().splitlines():
        assert f"{line}\n" in drawn
    assert drawn.endswith(
        "\n\npassed: 5 stages (3 built, 2 cached), 4 gates passed, 12.3 s\n  results in artifacts/out/bert\n"
    )
    assert drawn.index("release   built in 112 ms") < drawn.index("stage     result")


def test_the_bar_of_a_second_run_begins_anew() -> None:
    """`orun init` shows several runs: stages of the one before counted as done."""
    stream = io.StringIO()
    console = Console(stream, Terminal(live=True, width=80))
    for events in (EVENTS, (EVENTS[0], StageStarted("int8", INT8.reasons, "int8.log", 3.4))):
        for event in events:
            console(event)
        console.close()
    assert "  0 of 5 stages, 0 s" in stream.getvalue().rpartition("running")[2]
