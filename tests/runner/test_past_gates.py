"""Stages that only measure, behind a failed gate of the artifact that they measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orun
from orun.cli.main import main
from orun.core.run_record import RunResult
from tests.facts import describe_reasons
from tests.project import outcomes

STAGES = """
import orun


@orun.stage(inputs={}, output="files", metrics=["size"])
def make(context):
    (context.output / "model").write_text("model")
    return {"size": orun.Metric(9.0, "B", "lower")}


@orun.stage(inputs={"model": "files"}, output="metrics", metrics=["score"])
def score(context):
    (context.output / "judged").write_text((context.inputs["model"] / "model").read_text())
    return {"score": orun.Metric(0.5, "ratio", "higher")}


@orun.stage(inputs={"scores": "metrics"}, output="metrics", metrics=["mean"])
def summarize(context):
    return {"mean": 1.0}


@orun.stage(inputs={"model": "files"}, output="files")
def copy(context):
    (context.output / "model").write_text((context.inputs["model"] / "model").read_text())


@orun.stage(inputs={"scores": "metrics"}, output="files")
def draw(context):
    (context.output / "chart").write_text("chart")


@orun.stage(inputs={"model": "files"}, output="metrics", releases=True, metrics=[])
def send(context):
    return {}
"""
PIPELINE = """
stages:
  make: {uses: ./own.py:make, gate: {size: {max: LIMIT}}}
  score: {uses: ./own.py:score, needs: make, gate: {score: {min: FLOOR}}}
  mean: {uses: ./own.py:summarize, needs: score}
  copied: {uses: ./own.py:copy, needs: make}
  copy-score: {uses: ./own.py:score, needs: copied}
  chart: {uses: ./own.py:draw, needs: mean}
  send: {uses: ./own.py:send, needs: make}
"""
BEHIND = ("a gate of make failed",)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(STAGES)
    return tmp_path


def run(project: Path, limit: str = "5B", floor: str = "40%", **options: Any) -> RunResult:
    (project / "p.yaml").write_text(PIPELINE.replace("LIMIT", limit).replace("FLOOR", floor))
    return orun.run("p.yaml", **options)


def test_what_only_measures_runs_behind_a_failed_gate(project: Path) -> None:
    """A reviewer saw no figure of a model that was a little too large."""
    result = run(project, keep_going=True, past_gates=True)
    assert outcomes(result) == {
        "make": "built",
        "score": "built",
        "mean": "built",
        "copied": "blocked",
        "copy-score": "blocked",
        "chart": "blocked",
        "send": "blocked",
    }
    assert {name: describe_reasons(result[name].reasons) for name in ("copied", "chart", "send")} == dict.fromkeys(
        ("copied", "chart", "send"), BEHIND
    )
    assert describe_reasons(result["copy-score"].reasons) == ("copied did not run",)
    assert (result.exit_code, result.outcome) == (1, "failed")
    assert [(verdict.title, verdict.outcome) for verdict in result.verdicts] == [
        ("make size max 5B", "failed"),
        ("score score min 40%", "passed"),
    ]


def test_the_artifact_that_failed_is_measured(project: Path) -> None:
    result = run(project, past_gates=True)
    judged = {item.subject: item.value for item in result["score"].inputs if item.kind == "input"}
    assert judged == {"model": result["make"].tree}
    assert (Path(result["score"].out) / "judged").read_text() == "model"


def test_without_it_everything_behind_a_failed_gate_is_blocked(project: Path) -> None:
    """Also where its result is stored, and where a run with it came before."""
    run(project, past_gates=True)
    for _ in range(2):
        result = run(project, keep_going=True)
        assert [name for name, outcome in outcomes(result).items() if outcome != "blocked"] == ["make"]
        assert (describe_reasons(result["score"].reasons), result.exit_code) == (BEHIND, 1)
    assert outcomes(run(project, past_gates=True))["score"] == "cached"


def test_a_run_of_measurements_alone_is_not_repeated_without_it(project: Path) -> None:
    """Every stage is up to date then, and a no-op record answers the same request whatever its options are."""
    text = PIPELINE.partition("  copied:")[0].replace("LIMIT", "5B").replace("FLOOR", "40%")
    (project / "p.yaml").write_text(text)
    for outcome in ("built", "cached"):
        result = orun.run("p.yaml", past_gates=True)
        assert (outcomes(result)["mean"], result.exit_code, result.repeats) == (outcome, 1, "")
    assert outcomes(orun.run("p.yaml")) == {"make": "cached", "score": "blocked", "mean": "blocked"}


def test_a_failed_gate_of_a_measurement_blocks_no_other(project: Path) -> None:
    """A list under `needs` may order measurements; with a gate that passes before, builders behind them go on."""
    result = run(project, limit="9B", floor="60%", past_gates=True)
    assert {name: outcome for name, outcome in outcomes(result).items() if outcome == "blocked"} == {
        "chart": "blocked",
        "send": "blocked",
    }
    assert describe_reasons(result["chart"].reasons) == ("a gate of score failed",)


def test_a_stage_that_fails_blocks_measurements_too(project: Path) -> None:
    (project / "own.py").write_text(STAGES.replace('.write_text("model")', ".write_text(1)"))
    result = run(project, keep_going=True, past_gates=True)
    assert set(outcomes(result).values()) == {"failed", "blocked"}
    assert describe_reasons(result["score"].reasons) == ("make failed",)


@pytest.mark.parametrize(("named", "measured"), [((), False), (("score",), True), (("score.score",), True)])
def test_blame_measures_behind_a_failed_gate_if_it_is_named(
    project: Path, named: tuple[str, ...], *, measured: bool
) -> None:
    """A run with --keep-going advises to look into it longer."""
    (project / "p.yaml").write_text(PIPELINE.replace("LIMIT", "5B").replace("FLOOR", "60%"))
    assert main(["blame", "p.yaml", *named]) == 0
    assert {path.name for path in (project / "artifacts" / "out" / "p").iterdir()} == (
        {"make", "score"} if measured else {"make"}
    )


def test_the_command_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "p.yaml").write_text(PIPELINE.replace("LIMIT", "5B").replace("FLOOR", "40%"))
    assert main(["p.yaml", "--only", "make", "--no-blame"]) == 1
    assert main(["p.yaml", "--only", "score", "--no-blame", "-k"]) == 1
    assert "\nscore  built: never run before" in capsys.readouterr().out
    assert main(["p.yaml", "--only", "score", "--no-blame"]) == 1
    assert "\nscore  blocked: a gate of make failed" in capsys.readouterr().out
