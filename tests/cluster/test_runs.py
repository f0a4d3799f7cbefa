"""Pipelines on the agents of a cluster, and what becomes of a run when one of its parts is gone."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from orun.environment import processes
from tests.cluster.cluster import Cluster, wait_for_line
from tests.cluster.runs import agent, make_project, output_of, start_run

pytestmark = pytest.mark.slow


def machine_of(run: subprocess.Popen[str], stage: str) -> str:
    """Return the machine on which a run starts a stage."""
    started = re.search(r"running on (\w+)", wait_for_line(run, f"{stage}  running on"))
    assert started
    return started[1]


def result_of(file: Path) -> tuple[object, ...]:
    """Return what a run's record says of its end, its stages and its gates; times left out."""
    record = json.loads(file.read_text(encoding="utf-8"))
    fields = ("stage", "outcome", "reasons", "key", "tree", "metrics")
    stages = [[stage.get(name) for name in fields] for stage in record["stages"]]
    gates = [[gate[name] for name in ("stage", "metric", "outcome")] for gate in record["verdicts"]]
    return record["outcome"], record["exit_code"], stages, gates


def test_a_pipeline_ends_as_a_local_run_does(cluster: Cluster, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with agent(cluster, "a", "builder"), agent(cluster, "b", "bench"):
        run = start_run(cluster, project, "two.yaml", "--keep-going", "--reports", str(tmp_path / "there"))
        output = output_of(run)
    assert run.returncode == 1, output  # `strict` fails
    checkout = project / "artifacts" / "out" / "two" / "upper" / "text"
    assert checkout.read_text(encoding="utf-8") == "A B"
    local = [sys.executable, "-m", "orun", str(project / "two.yaml"), "-k", "--reports", str(tmp_path / "here")]
    subprocess.run([*local, "--store", str(tmp_path / "store")], check=False, capture_output=True, timeout=120)
    assert result_of(tmp_path / "there" / "run.json") == result_of(tmp_path / "here" / "run.json")


def test_a_measurement_beside_ray_has_a_clean_environment_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with agent(cluster, "a", "builder"):
        run = start_run(cluster, project, "look.yaml")
        output = output_of(run)
    assert run.returncode == 0, output
    seen = json.loads((project / "artifacts" / "out" / "look" / "look" / "text").read_text(encoding="utf-8"))
    assert seen == {"nice": 0, "oom_score_adj": 0, "variables": [], "folders": []}
    (action,) = project.glob("artifacts/actions/*/*/*.json")
    components = json.loads(action.read_text(encoding="utf-8"))["record"]["components"]
    assert [item["value"] for item in components if item.get("subject") == "beside"] == [f"ray {version('ray')}"]


@pytest.mark.parametrize("victim", ["killed", "cut off"])
def test_a_stage_of_a_lost_machine_starts_again_on_another(cluster: Cluster, tmp_path: Path, victim: str) -> None:
    project = make_project(tmp_path / "project")
    with agent(cluster, "a", "builder") as first, agent(cluster, "b", "bench") as second:
        run = start_run(cluster, project, "slow.yaml")
        lost = machine_of(run, "slow")
        if victim == "killed":
            (first if lost == "a" else second).send_signal(signal.SIGKILL)
        else:
            cluster.network.cut(lost)
        try:
            output = output_of(run)
        finally:
            if victim != "killed":
                cluster.network.mend(lost)
        assert run.returncode == 0, output
        other = "b" if lost == "a" else "a"
        assert f"machine {lost} was lost" in output
        assert f"slow starts again on {other} (1 of 2)" in output


def sleepers(agent: subprocess.Popen[str]) -> list[int]:
    """Return the processes below an agent that its stages have started."""
    sleeping = []
    for process in processes.iter_descendants(agent.pid):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"sleep\0"):
                sleeping.append(process)
    return sleeping


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail after a minute."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_stages_of_a_killed_run_end(cluster: Cluster, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with agent(cluster, "a", "builder") as first, agent(cluster, "b", "bench") as second:
        run = start_run(cluster, project, "slow.yaml", "--set", "stages.slow.with.seconds=300")
        machine = {"a": first, "b": second}[machine_of(run, "slow")]
        wait_until(lambda: bool(sleepers(machine)))
        run.send_signal(signal.SIGKILL)
        wait_for_line(machine, "is not connected any more")
        wait_until(lambda: not sleepers(machine))
        run.wait(60)
