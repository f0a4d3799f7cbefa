"""The end of a stage's log."""

from __future__ import annotations

from pathlib import Path

import onnx

from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.report import failures
from orun.report.failures import LINKS, TRACEBACK, format_failure, read_log_tail, strip_controls
from orun.report.run_options import format_repetition
from orun.report.terminal import Terminal
from tests.report.support import PASSED


def test_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_text("".join(f"{number}\n" for number in range(100)))
    assert read_log_tail(log) == [str(number) for number in range(85, 100)]
    assert read_log_tail(log, 2) == ["98", "99"]


def test_a_log_that_says_no_more_than_the_failure_is_not_shown(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    failure = Failure("StageFailed", "no labels", "it has x", f"give it some\nIts log: {log}", str(log))
    stage = replace(PASSED.stages[0], stage="judge", outcome="failed", failure=failure)
    log.write_text("no labels\n  it has x\n  hint: give it some\n")
    lines = ["stage judge failed: no labels", "  it has x", "  hint: give it some", f"  hint: Its log: {log}"]
    assert format_failure(stage, Terminal()) == lines
    log.write_text("loading\nno labels\n")
    assert format_failure(stage, Terminal()) == [*lines, "  last 2 lines of its log:", "  | loading", "  | no labels"]


def test_a_failure_that_is_read_elsewhere_names_a_command_without_the_store(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_text("loading\n")
    command = "orun p.yaml --only judge --store /ci/store"
    hint = f"give it some\nIts log: {log}\nRun it alone: {command}"
    failure = Failure("StageFailed", "no labels", "it has x", hint, str(log), "give it some", command)
    stage = replace(PASSED.stages[0], stage="judge", outcome="failed", failure=failure)
    lines = ["stage judge failed: no labels", "  it has x", "  hint: give it some"]
    tail = ["  last 1 line of its log:", "  | loading"]
    assert format_failure(stage, Terminal()) == [
        *lines, f"  hint: Its log: {log}", f"  hint: Run it alone: {command}", *tail
    ]  # fmt: skip
    again = format_repetition(replace(PASSED, overrides={"seed": "1"}), "judge")
    assert again == "orun pipelines/bert.yaml --to judge --set seed=1"
    shown = f"  hint: Run it on your machine: {again}"
    assert format_failure(stage, Terminal(), again=again) == [*lines, shown, f"  log: {log}", *tail]


CHAIN = """\
loading
Traceback (most recent call last):
  File "io.py", line 44, in load
DecodeError: wire format was corrupt

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "onnx.py", line 58, in run
orun.errors.UsageError: cut.onnx is not an ONNX model
  wire format was corrupt
"""


def test_where_orun_refused_something_is_not_shown(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_text(CHAIN)

    def shown(why: str, problem: str = "cut.onnx is not an ONNX model") -> list[str]:
        failure = Failure("StageFailed", problem, why, f"Its log: {log}", str(log))
        return format_failure(replace(PASSED.stages[0], outcome="failed", failure=failure), Terminal())[-5:]

    assert shown("wire format was corrupt")[-2:] == ["  last 1 line of its log:", "  | loading"]
    log.write_text(
        CHAIN.replace("DecodeError: wire format was corrupt", "orun.errors.UsageError: no\n  hint: try again")
    )
    assert shown("no\ntry again")[-2:] == ["  last 1 line of its log:", "  | loading"]
    log.write_text(CHAIN)
    assert shown("")[-4:] == [
        "  | loading",
        "  | Traceback (most recent call last):",
        '  |   File "io.py", line 44, in load',
        "  | DecodeError: wire format was corrupt",
    ]
    assert shown("", "something else")[-1] == "  |   wire format was corrupt"
    refused = "cut.onnx is not an ONNX model\nwire format was corrupt"
    assert shown(refused, "the disk is full")[-2:] == ["  last 1 line of its log:", "  | loading"]


def test_frames_of_libraries_that_led_to_a_refusal_are_not_shown(tmp_path: Path) -> None:
    library = f'  File "{Path(onnx.__file__)}", line 231, in load_model\n    parse()\n'
    own = f'  File "{Path(failures.__file__)}", line 36, in failing\n    yield\n'
    cause = "RuntimeError: the graph is\nbroken\n"
    refused = f"{TRACEBACK}\n{own}orun.errors.StageFailed: PyTorch cannot export it\n  hint: try another\n"
    log = tmp_path / "stage.log"

    def shown(frames: str, why: str = "") -> list[str]:
        log.write_text(
            f"12:00:00 INFO tracing\n12:00:01 ERROR PyTorch cannot export it\n{TRACEBACK}\n{frames}{cause}"
            f"{TRACEBACK}\n{frames}{cause}\n{LINKS[0]}\n\n{refused}"
        )
        failure = Failure("StageFailed", "PyTorch cannot export it", why, f"try another\nIts log: {log}", str(log))
        return format_failure(replace(PASSED.stages[0], outcome="failed", failure=failure), Terminal())[3:]

    assert shown(library + own) == ["  last 1 line of its log:", "  | 12:00:00 INFO tracing"]
    user = '  File "/home/ada/orun/mine.py", line 6, in forward\n    x + y\n'
    assert f"  | {user.splitlines()[0]}" in shown(library + user)
    assert shown(library + user, why="RuntimeError: the graph is\nbroken")[-1:] == ["  | 12:00:00 INFO tracing"]


def test_of_a_crash_what_led_to_the_user_s_function_is_not_shown(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    frames = "".join(f'  File "/site/orun/executors/local/zygote.py", line {line} in serve\n' for line in range(20))
    crash = (
        f'Fatal Python error: Aborted\n  File "mine.py", line 6 in f\n{frames}  File "<frozen runpy>", line 8 in _run\n'
    )
    log.write_text(f"{crash}Extension modules: numpy\n")
    failure = Failure("StageCrashed", "f crashed", "", f"Its log: {log}", str(log))
    assert format_failure(replace(PASSED.stages[0], outcome="failed", failure=failure), Terminal())[-3:] == [
        "  | Fatal Python error: Aborted",
        '  |   File "mine.py", line 6 in f',
        "  | Extension modules: numpy",
    ]


def test_blank_lines_at_the_end_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_text("one\n\ntwo\n\n  \n")
    assert read_log_tail(log) == ["one", "", "two"]


def test_a_log_of_one_endless_line_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_text("x" * 1_000_000 + " the end")
    (line,) = read_log_tail(log)
    assert line == "..." + "x" * 492 + " the end"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = tmp_path / "stage.log"
    log.write_bytes(b"caf\xe9\n")
    assert read_log_tail(log) == ["caf\ufffd"]


def test_a_log_that_is_gone_or_empty(tmp_path: Path) -> None:
    assert read_log_tail(tmp_path / "gone.log") == []
    (tmp_path / "empty.log").touch()
    assert read_log_tail(tmp_path / "empty.log") == []


def test_control_sequences() -> None:
    assert strip_controls("\x1b[1;31mfailed\x1b[0m\x1b]8;;https://example.com\x07link\x1b]8;;\x07") == "failedlink"
    assert strip_controls("10 %\r50 %\r100 %") == "100 %"
    assert strip_controls("windows line\r") == "windows line"
    assert strip_controls("bell\x07 tab\tkept") == "bell tab\tkept"
