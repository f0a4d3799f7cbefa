"""The end of the head, which is the last test of a session's cluster."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.runs import agent, make_project, output_of, start_run
from tests.cluster.test_runs import machine_of

pytestmark = pytest.mark.slow


def test_a_run_ends_when_the_head_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with agent(cluster, "a", "builder") as joined:
        run = start_run(cluster, project, "slow.yaml", "--set", "stages.slow.with.seconds=120")
        machine_of(run, "slow")
        cluster.end(cluster.processes[0], signal.SIGKILL)
        output = output_of(run)
        assert run.returncode == 3, output
        assert f"the head at {cluster.head} has ended" in output
        assert joined.wait(120) == 3
