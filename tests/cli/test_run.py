"""orun run, on real pipelines of two small stages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from orun import api
from orun.remote.options import Remote
from orun.report.document import decode_run
from tests.thin import mostly_slow

from .conftest import CommandLine, steady


def test_a_first_run_then_nothing_to_do_then_a_change(orun: CommandLine, project: Path) -> None:
    first = orun("words.yaml")
    assert (first.code, first.err) == (0, "")
    assert steady(first.out) == (
        """\
write  running: never run before
write  built in TIME, 13 B
count  running: never run before
count  built in TIME
stage  result  time  size  metrics
write  built: never run before  TIME  13 B  length 13
count  built: never run before  TIME  words 3

gate  measured  threshold  verdict
count words  3  min 3  passed

passed: 2 stages (2 built), 1 gate passed, TIME; results in artifacts/out/words
"""
    )
    second = orun("run", "words.yaml")
    assert (second.code, second.err) == (0, "")
    assert steady(second.out) == (
        """\
stage  result  size  metrics
write  cached  13 B  length 13
count  cached  words 3

gate  measured  threshold  verdict
count words  3  min 3  passed

passed: 2 stages (2 cached), 1 gate passed, TIME; results in artifacts/out/words
"""
    )
    third = orun("words.yaml", "--set", "stages.write.with.text=three four five")
    assert (third.code, third.err) == (0, "")
    assert steady(third.out) == (
        """\
write  running: parameter text: "one two three" -> "three four five" (took TIME last time)
write  built in TIME, 15 B
count  running: input text changed (from write) (took TIME last time)
count  built in TIME
stage  result  time  size  metrics
write  built: parameter text: "one two three" -> "three four five"  TIME  15 B  length 15
count  built: input text changed (from write)  TIME  words 3

gate  measured  threshold  verdict
count words  3  min 3  passed

passed: 2 stages (2 built), 1 gate passed, TIME; results in artifacts/out/words
"""
    )
    assert (project / "artifacts/out/words/write/text.txt").read_text() == "three four five"


def test_a_gate_that_fails_is_exit_1(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("words.yaml", "-q", "--set", "stages.write.with.text=one")
    assert (shown.code, shown.err) == (1, "")
    assert steady(shown.out) == (
        """\
words.yaml:7:15: gate failed: count words min 3: words is 1, below the minimum of 3
  hint: to see what it rests on: orun explain words.yaml count --set stages.write.with.text=one

failed: 2 stages (2 built), 0 of 1 gate passed, 1 failed, TIME; exit 1
"""
    )


def test_a_stage_that_fails_is_exit_3_with_its_log(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("words.yaml", "-q", "--set", "stages.write.with.text=boom")
    assert (shown.code, shown.err) == (3, "")
    lines = steady(shown.out).splitlines()
    assert lines[:4] == [
        "stage count failed: count raised ValueError: boom is no word",
        "  at words.py:18 in count",
        "  hint: Its log: artifacts/runs/RUN-words/logs/count.log",
        "  hint: Run it alone: orun words.yaml --only count --set stages.write.with.text=boom",
    ]
    assert lines[-3:] == [
        "  | ValueError: boom is no word",
        "",
        "failed: 2 stages (1 failed, 1 built), 1 gate not judged, TIME; exit 3",
    ]


def test_what_runs_a_stage_alone_names_the_store_of_the_run(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("words.yaml", "-q", "--set", "stages.write.with.text=boom", "--store", "other store")
    options = "--set stages.write.with.text=boom --store 'other store'"
    assert f"  hint: Run it alone: orun words.yaml --only count {options}\n" in shown.out


def test_with_json_the_result_is_the_document(orun: CommandLine, project: Path) -> None:
    shown = orun("words.yaml", "--json")
    assert (shown.code, shown.err) == (0, "")
    document = json.loads(shown.out)
    result = decode_run(document)
    assert [(stage.stage, stage.outcome) for stage in result.stages] == [("write", "built"), ("count", "built")]
    assert [verdict.outcome for verdict in result.verdicts] == ["passed"]
    record = json.loads((project / "artifacts/runs" / result.run / "record.json").read_text())["record"]
    facts = {"causes": record["stages"][0].pop("reasons"), "components": record["stages"][0].pop("inputs")}
    assert {name: document["stages"][0][name] for name in facts} == facts
    assert record["stages"][0].items() <= document["stages"][0].items()
    assert record["verdicts"][0].items() <= document["verdicts"][0].items()
    assert {**record, "stages": [], "verdicts": []} == {
        name: value if name not in ("stages", "verdicts") else []
        for name, value in document.items()
        if name != "outcome"
    }


def test_with_json_a_bad_file_is_the_document(orun: CommandLine, project: Path) -> None:
    (project / "words.yaml").write_text("stages: {write: {uses: ./words.py:wriet}}\n")
    shown = orun("words.yaml", "--json")
    assert (shown.code, shown.err) == (2, "")
    error = json.loads(shown.out)["error"]
    assert (error["type"], error["exit_code"], len(error["problems"])) == ("PipelineError", 2, 1)
    assert error["problems"][0]["suggestion"] == "write"


def test_reports_on_a_file_whose_name_is_no_text(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9"))
    folder.mkdir()
    for name in ("words.py", "words.yaml"):
        (project / name).rename(folder / name)
    monkeypatch.chdir(project)
    file = f"{folder.name}/words.yaml"
    assert orun(file, "-q", "--reports", "reports", "--set", "stages.write.with.text=one").code == 1
    (issue,) = json.loads(Path("reports/code-quality.json").read_text())
    assert issue["location"]["path"] == file
    assert json.loads(Path("reports/run.json").read_text())["file"] == str(folder / "words.yaml")
    assert "caf\\udce9/words.yaml" in Path("reports/summary.md").read_text()
    ET.fromstring(Path("reports/junit.xml").read_text())  # noqa: S314 -- our own document


def test_reports_are_written_where_they_are_asked_for(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = project / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    shown = orun("words.yaml", "-q", "--junit", "reports/junit.xml", "--markdown", "reports/run.md")
    assert shown.code == 0
    assert '<testsuites name="words" tests="3" failures="0" errors="0"' in Path("reports/junit.xml").read_text()
    text = Path("reports/run.md").read_text()
    assert text.startswith("## words\n\npassed: 2 stages (2 built), 1 gate passed, ")
    assert summary.read_text() == f"before\n{text}"


def test_a_report_for_browsers(orun: CommandLine, project: Path) -> None:
    assert orun("words.yaml", "-q", "--html", "run.html").code == 0
    first = (project / "run.html").read_text(encoding="utf-8")
    assert "<title>words: passed</title>" in first
    assert 'href="#stage-write"' in first
    assert "Trend on this machine" not in first
    again = orun("words.yaml", "-q", "--set", "stages.write.with.text=one two three four", "--reports", "reports")
    assert again.code == 0
    assert "Trend on this machine" in (project / "reports" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "forced"),
    [
        (["--force", "words.yaml"], ("write", "count")),
        (["words.yaml", "--force"], ("write", "count")),
        (["words.yaml", "--force", "count", "--fresh"], ("count",)),
        (["words.yaml", "--force", "--only", "count"], ("count",)),
        (["words.yaml", "--force=write"], ("write",)),
        (["words.yaml"], ()),
    ],
)
def test_what_is_forced(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], forced: tuple[str, ...]
) -> None:
    del project
    passed: dict[str, object] = {}

    def run(_: object, **options: object) -> None:
        passed.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run", run)
    orun(*arguments)
    assert tuple(passed["force"]) == forced  # type: ignore[arg-type]


def test_every_option_reaches_the_api(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del project
    passed: dict[str, object] = {}

    def run(file: str, **options: object) -> None:
        passed.update(options, file=file)
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run", run)
    arguments = ["words.yaml", "--only", "count", "--from", "write", "--to", "count", "--fresh", "-k", "-j", "3"]
    arguments += ["--strict", "--gpus", "2", "--remote", "s3://bucket", "--remote-mode", "read", "--remote-required"]
    orun(*arguments, "--store", "elsewhere", "--set", "seed=1", "--html", "run.html")
    del passed["on_event"]
    assert passed == {
        "file": "words.yaml",
        "executor": None,
        "wait": 0.0,
        "set": {"seed": "1"},
        "only": ("count",),
        "from_": ("write",),
        "to": ("count",),
        "force": [],
        "fresh": True,
        "keep_going": True,
        "past_gates": True,
        "strict": True,
        "jobs": 3,
        "gpus": 2,
        "store": Path("elsewhere"),
        "remote": Remote("s3://bucket", "read", required=True),
        "reports": [Path("run.html")],
    }


def test_only_a_stage_whose_input_is_not_there(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("words.yaml", "--only", "count")
    assert (shown.code, shown.err) == (3, "")
    assert steady(shown.out) == (
        """\
stage  result
write  blocked: not up to date, and not asked for (and 1 more)
count  blocked: write did not run

gate  measured  threshold  verdict
count words  -  min 3  not judged

failed: 2 stages (2 blocked), 1 gate not judged, TIME; exit 3; \
to run what is missing as well: orun words.yaml --to count
"""
    )


@pytest.mark.parametrize(
    "how", mostly_slow([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], signal.SIGINT, signal.SIGHUP)
)
def test_ctrl_c_stops_the_run_and_keeps_what_is_done(project: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-m", "orun", "words.yaml", "--set", "stages.write.with.text=wait"]
    with subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            if line.startswith("count  running"):
                break
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert not list((project / "artifacts" / "tmp").iterdir())
    assert steady(out) == (
        """\
stage  result  time  size  metrics
write  built: never run before  TIME  4 B  length 4

interrupted: 1 stage (1 built), TIME; exit 130; what is done is kept; \
to go on, run the same command again
"""
    )


def test_a_hangup_that_nobody_heeds_goes_by(project: Path) -> None:
    command = ["nohup", sys.executable, "-m", "orun", "words.yaml"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("write  running"):
                process.send_signal(signal.SIGHUP)
                break
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_terminal_without_unicode_gets_what_it_can_show(project: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "orun", "words.yaml", "--set", "stages.write.with.text=é è ê"]
    process = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert "length 5" in process.stdout


@pytest.mark.slow
def test_a_run_says_what_it_reads_while_it_plans(project: Path) -> None:
    """A file of zeros that takes up no space on the disk takes seconds to digest."""
    (project / "read.py").write_text(
        "from orun import Context, FilePath, stage\n\n\n"
        '@stage(inputs={}, output="files")\n'
        "def read(context: Context, *, path: FilePath) -> None:\n"
        '    (context.output / "text").write_text("read")\n'
    )
    with (project / "zeros.bin").open("wb") as file:
        file.truncate(8 << 30)
    (project / "read.yaml").write_text("stages: {read: {uses: ./read.py:read, with: {path: zeros.bin}}}\n")
    command = [sys.executable, "-m", "orun", "read.yaml"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = process.stdout.readlines()
    assert lines[0] in ("reading read.yaml\n", f"planning read (1 of 1): reading {project}/zeros.bin\n")
    assert f"planning read (1 of 1): reading {project}/zeros.bin\n" in lines
    assert process.returncode == 0
