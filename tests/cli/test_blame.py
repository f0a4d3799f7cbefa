"""orun blame, and what a run says by itself when a gate failed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

import onnx
import pytest

import orun as orun_api
from orun.blame import blame as culprits
from orun.blame.blame import find_requests
from orun.blame.diagnosis import OUT_OF_TIME, Diagnosis
from orun.cli import blame
from tests.cli.conftest import CommandLine
from tests.diagnosis.planted import layers
from tests.report.pages import read
from tests.thin import mostly_slow

PIPELINE = """
stages:
  import: {uses: convert/onnx, with: {path: layers.onnx}}
  int8: {uses: quantize/dynamic, needs: import}
  size:
    uses: measure/size
    needs: {model: int8, reference: import}
    gate: {size: {max: 1kB}, nodes: {max: 100}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run."""
    folder = tmp_path_factory.mktemp("sized")
    (folder / "sized.yaml").write_text(PIPELINE, encoding="utf-8")
    onnx.save(layers(), folder / "layers.onnx")
    orun_api.run(folder / "sized.yaml", store=folder / "artifacts")
    return folder


@pytest.fixture
def sized(project: Path, built: Path) -> Path:
    """The working folder: a copy of that project, in which everything is up to date."""
    shutil.copytree(built, project, symlinks=True, dirs_exist_ok=True)
    return project


def test_a_run_looks_into_a_gate_that_failed(orun: CommandLine, sized: Path) -> None:
    outcome = orun("sized.yaml", "--html", "report.html")
    assert outcome.code == 1
    assert "why, for 60 s at most (--no-blame leaves it out):" in outcome.out
    assert "size size max 1kB" in outcome.out
    run = max(path for path in (sized / "artifacts" / "runs").iterdir() if path.name.endswith("-sized"))
    (kept,) = json.loads((run / "blame.json").read_text())["blame"]
    *_, sentence, blank, last = outcome.out.splitlines()
    assert (sentence, blank) == (kept["sentence"], "")
    assert re.fullmatch(r"failed: 3 stages \(3 cached\), 1 of 2 gates passed, 1 failed, [0-9.]+ m?s; exit 1", last)
    assert [level["stage"] for level in kept["levels"]] == ["import", "int8"]
    culprit = read((sized / "report.html").read_text(encoding="utf-8")).at("culprit")
    assert culprit.only("p", "why").text == kept["sentence"].replace("`", "")
    assert [line.only("th").text for line in culprit.every("tbody")[0].every("tr")] == ["import", "int8"]


CUT_SHORT = "the rest was skipped: time limit reached; to go on: orun blame sized.yaml size"


@pytest.mark.usefixtures("sized")
@pytest.mark.parametrize(
    ("options", "again"),
    [
        ((), "--time 10min"),
        (("--quiet",), "--time 10min"),
        (("--set", "stages.size.gate.size.max=2kB"), "--set stages.size.gate.size.max=2kB --time 10min"),
        (("--store", "artifacts"), "--time 10min"),
        (("--store", "other"), "--store other --time 10min"),
    ],
)
def test_a_search_that_was_cut_short_says_how_to_go_on(
    orun: CommandLine, monkeypatch: pytest.MonkeyPatch, options: Sequence[str], again: str
) -> None:
    monkeypatch.setattr(blame, "AUTOMATIC_SECONDS", 0.0)
    outcome = orun("sized.yaml", *options)
    assert outcome.code == 1
    *_, sentence, stopped, blank, last = outcome.out.splitlines()
    assert sentence == "size could not be measured at any stage before `size`: skipped: time limit reached"
    assert (stopped, blank) == (f"{CUT_SHORT} {again}", "")
    assert re.match(r"failed: 3 stages \(3 (cached|built)\), 1 of 2 gates passed, 1 failed, ", last)


def test_each_failed_gate_has_an_equal_part_of_the_time_that_is_left(
    orun: CommandLine, sized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one had all of it."""
    text = PIPELINE.replace("nodes: {max: 100}", "nodes: {max: 1}, parameters: {max: 1}")
    (sized / "sized.yaml").write_text(text)
    limits: list[float] = []

    def diagnose(request: culprits.BlameRequest, seconds: float, *_: object) -> Diagnosis:
        limits.append(seconds)
        return Diagnosis(request.gate.metric, "size", request.gate.metric, "", "found", seconds=10.0)

    monkeypatch.setattr(culprits, "blame", diagnose)
    assert orun("blame", "sized.yaml", "--time", "60s").code == 0
    assert limits == [20.0, 25.0, 40.0]


@pytest.mark.usefixtures("sized")
def test_a_search_of_its_own_that_was_cut_short_asks_for_twice_the_time(orun: CommandLine) -> None:
    orun("sized.yaml", "--no-blame")
    (diagnosis,) = json.loads(orun("blame", "sized.yaml", "--time", "0.001ms", "--json").out)["blame"]
    assert diagnosis["stopped"] == f"{CUT_SHORT} --time 10min"
    (question,) = find_requests(orun_api.load("sized.yaml"), orun_api.run("sized.yaml"))
    cut = Diagnosis("", "size", "size", "B", "", stopped=OUT_OF_TIME)
    assert blame.add_advice(cut, question, 930.0, None).stopped == f"{CUT_SHORT} --time 31min"


@pytest.mark.usefixtures("sized")
def test_who_stops_the_search_keeps_the_run(orun: CommandLine, sized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(culprits, "blame", interrupted)
    outcome = orun("sized.yaml", "--markdown", "summary.md", "--set", "stages.size.gate.size.max=2kB")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].startswith("failed: 3 stages (3 cached), 1 of 2 gates passed, 1 failed, ")
    again = "orun blame sized.yaml --set stages.size.gate.size.max=2kB"
    assert outcome.err.splitlines()[-1] == f"the search was interrupted; to go on: {again}"
    assert "failed: 3 stages" in (sized / "summary.md").read_text()


SLOW_CODE = """\
import time

from orun import Context, stage


@stage(inputs={"model": "onnx"}, output="metrics", metrics=["bytes"])
def measure(context: Context) -> dict[str, float]:
    model = (context.inputs["model"] / "model.onnx").read_bytes()
    if b"MatMulInteger" not in model:  # the model that only the search measures
        time.sleep(600)
    return {"bytes": len(model)}
"""
SLOW_PIPELINE = """\
stages:
  import: {uses: convert/onnx, with: {path: layers.onnx}}
  int8: {uses: quantize/dynamic, needs: import}
  measure: {uses: ./slow.py:measure, needs: int8, gate: {bytes: {max: 1}}}
"""


@pytest.mark.parametrize(
    ("number", "repeated"),
    mostly_slow(
        [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
        (signal.SIGTERM, True),
    ),
)
def test_a_signal_ends_the_search_alone(sized: Path, number: signal.Signals, repeated: bool) -> None:
    """After a run that had work to do, and after one that repeats the last run's result."""
    (sized / "slow.py").write_text(SLOW_CODE)
    (sized / "slow.yaml").write_text(SLOW_PIPELINE)
    if repeated:
        orun_api.run("slow.yaml")
    command = [sys.executable, "-m", "orun", "slow.yaml", "--markdown", "summary.md"]
    with subprocess.Popen(command, cwd=sized, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as run:
        assert run.stderr
        assert run.stderr.readline().startswith("  measure")
        run.send_signal(number)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (1, "the search was interrupted; to go on: orun blame slow.yaml\n")
    count = "3 cached" if repeated else "1 built, 2 cached"
    assert out.splitlines()[-1].startswith(f"failed: 3 stages ({count}), 0 of 1 gate passed, 1 failed, ")
    assert f"failed: 3 stages ({count})" in (sized / "summary.md").read_text()
    assert not list((sized / "artifacts" / "tmp").iterdir())


WAITING = """\


@stage(inputs={"model": "onnx"}, output="files")
def wait(context: Context) -> None:
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_run_that_was_stopped_is_not_searched(sized: Path) -> None:
    (sized / "slow.py").write_text(SLOW_CODE + WAITING)
    (sized / "slow.yaml").write_text(f"{SLOW_PIPELINE}  wait: {{uses: ./slow.py:wait, needs: int8}}\n")
    command = [sys.executable, "-m", "orun", "slow.yaml", "--keep-going", "--jobs", "1"]
    with subprocess.Popen(command, cwd=sized, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as run:
        assert run.stdout
        lines = []
        for line in run.stdout:
            lines.append(line.split(" in ")[0].rstrip())
            if line.startswith("wait"):
                break
        assert lines[-2:] == ["measure  built", "wait     running: never run before"]
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (130, "")
    assert "gate failed: measure bytes max 1" in out
    assert "why, for" not in out
    assert out.splitlines()[-1].startswith("interrupted: ")


@pytest.mark.usefixtures("sized")
def test_a_gate_that_other_machines_measured_is_not_searched(
    orun: CommandLine, sized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search would measure on this machine."""
    monkeypatch.setenv("ORUN_ON", "tcp://127.0.0.1:1")
    assert "why, for 60 s" in orun("sized.yaml", "--on", "off").out
    monkeypatch.delenv("ORUN_ON")
    (sized / "pyproject.toml").write_text('[tool.orun]\non = "tcp://127.0.0.1:1"\n')
    result = orun_api.run("sized.yaml", executor="off")
    monkeypatch.setattr(orun_api.api, "run", lambda *_, **__: result)  # as a run on those machines
    assert "why, for 60 s" not in orun("sized.yaml").out
    assert "why, for 60 s" in orun("sized.yaml", "--on", "off").out


def test_its_own_runs_are_not_the_last_ones(orun: CommandLine, sized: Path) -> None:
    orun("sized.yaml", "--set", "stages.size.gate.size.max=1MB")
    orun("sized.yaml")
    assert any(path.name.endswith(".blame") for path in (sized / "artifacts" / "runs").iterdir())
    gates = json.loads(orun("diff", "--json").out)["gates"]
    assert gates == [{"name": "size size max", "old": "1MB: passed", "new": "1kB: failed"}]


def test_unless_told_not_to(orun: CommandLine, sized: Path) -> None:
    outcome = orun("sized.yaml", "--no-blame")
    assert outcome.code == 1
    assert "why" not in outcome.out
    assert not list((sized / "artifacts").rglob("blame.json"))


@pytest.mark.usefixtures("sized")
def test_quietly_it_is_one_sentence(orun: CommandLine) -> None:
    outcome = orun("sized.yaml", "-q")
    assert outcome.code == 1
    *_, sentence, blank, last = outcome.out.splitlines()
    assert sentence.startswith("size is ")
    assert (blank, last.split(":")[0]) == ("", "failed")
    assert "why" not in outcome.out


@pytest.mark.usefixtures("sized")
def test_json_has_it_too(orun: CommandLine) -> None:
    outcome = orun("sized.yaml", "--json")
    (diagnosis,) = json.loads(outcome.out)["blame"]
    assert (diagnosis["stage"], diagnosis["metric"]) == ("size", "size")


@pytest.mark.usefixtures("sized")
def test_a_gate_that_passes_is_looked_into_when_it_is_named(orun: CommandLine) -> None:
    outcome = orun("blame", "sized.yaml", "size.nodes", "--json")
    assert outcome.code == 0
    (diagnosis,) = json.loads(outcome.out)["blame"]
    assert diagnosis["culprit"] == "int8"
    assert diagnosis["sentence"] == "`int8` added 12 to nodes"
    assert "places" not in diagnosis


GIVING = """
import orun


@orun.stage(output="files", releases=True)
def upload(context):
    with open(context.root / "uploads", "a") as file:
        file.write("once")
    (context.output / "receipt").write_text("done")
"""
GIVEN = """
  upload: {uses: ./giving.py:upload, needs: import}
  after:
    uses: measure/size
    needs: [int8, upload]
    gate: {size: {max: 1kB}}
"""


def test_nothing_is_given_away_to_find_something_out(orun: CommandLine, sized: Path) -> None:
    (sized / "giving.py").write_text(GIVING, encoding="utf-8")
    (sized / "sized.yaml").write_text(PIPELINE + GIVEN, encoding="utf-8")
    outcome = orun("blame", "sized.yaml", "--json")
    assert (outcome.code, [diagnosis["stage"] for diagnosis in json.loads(outcome.out)["blame"]]) == (0, ["size"])
    for name, why in (("upload", "upload"), ("after", "after comes after upload, which")):
        outcome = orun("blame", "sized.yaml", name)
        assert (outcome.code, outcome.err) == (
            2,
            f"error: {why} publishes a release, so it does not run for an investigation\n  hint: orun sized.yaml\n",
        )
    assert not (sized / "uploads").exists()


@pytest.mark.usefixtures("project")
def test_no_gate_failed(orun: CommandLine) -> None:
    assert orun("blame", "words.yaml").out == "no gate failed\n"


@pytest.mark.usefixtures("project")
def test_a_gate_on_no_model(orun: CommandLine) -> None:
    assert orun("blame", "words.yaml", "count").out == (
        "nothing to look into: no gate of count judged a model that other stages made\n"
    )


@pytest.mark.usefixtures("project")
def test_no_such_gate(orun: CommandLine) -> None:
    outcome = orun("blame", "words.yaml", "speed")
    assert outcome.code == 2
    assert outcome.err == (
        "error: there is no stage or gate 'speed' in words.yaml\n  stages with gates are count\n"
        "  hint: orun graph words.yaml\n"
    )
    assert orun("blame", "words.yaml", "count.wrods").err == (
        "error: there is no stage or gate 'count.wrods' in words.yaml\n  did you mean count.words?\n"
        "  hint: orun graph words.yaml\n"
    )


@pytest.mark.usefixtures("project")
def test_a_stage_that_fails(orun: CommandLine) -> None:
    outcome = orun("blame", "words.yaml", "--set", "stages.write.with.text=boom")
    assert outcome.code == 2
    assert outcome.err.endswith(
        "error: count raised ValueError: boom is no word\n  at words.py:18 in count\n"
        "  hint: orun words.yaml --set stages.write.with.text=boom\n"
    )


@pytest.mark.usefixtures("project")
def test_no_time(orun: CommandLine) -> None:
    outcome = orun("blame", "words.yaml", "count", "--time=0s")
    assert outcome.code == 2
    assert outcome.err == "error: --time leaves no time to find anything out\n  hint: orun blame FILE --time 10min\n"
    outcome = orun("blame", "words.yaml", "count", "--time=-5s")
    assert outcome.code == 2
    assert outcome.err == (
        "error: --time wants a duration such as 90s or 30min, not '-5s'\n  a duration is not negative\n"
    )
    assert orun("blame", "words.yaml", "--time", "10m").out == "no gate failed\n"
