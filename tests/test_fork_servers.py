"""Fork servers that runs of tests share."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from tests.project import Project

STAGES = """
import os
from orun import stage


@stage(inputs={}, output="files")
def server(context, *, number: int):
    (context.output / "text").write_text(str(os.getppid()))
"""
PIPELINE = "name: text\nstages: {server: {uses: ./stages.py:server, with: {number: 0}}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("stages.py", STAGES)
    return project


def server_of(project: Project, number: int) -> str:
    """Process that forked the stage of a run."""
    project.run(set={"stages.server.with.number": number})
    return project.text("server")


def test_runs_share_a_server_if_they_give_it_the_same_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server_of(project, 1)
    assert server_of(project, 2) == first
    monkeypatch.setenv("MARK", "1")
    assert server_of(project, 3) != first
    monkeypatch.delenv("MARK")
    assert server_of(project, 4) == first


def test_a_server_that_may_find_other_modules_is_not_shared(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    assert server_of(project, 1) != server_of(project, 2)


@pytest.mark.usefixtures("own_fork_servers")
def test_a_test_may_have_servers_of_its_own(project: Project) -> None:
    assert server_of(project, 1) != server_of(project, 2)


def test_a_server_that_ends_with_its_thread_is_not_shared(project: Project) -> None:
    servers: list[str] = []
    for number in (1, 2):
        thread = Thread(target=lambda number=number: servers.append(server_of(project, number)))
        thread.start()
        thread.join()
    assert servers[0] != servers[1]


def test_a_server_of_a_run_that_failed_is_shared(project: Project) -> None:
    first = server_of(project, 1)
    project.edit("stages.py", "import os\n", "import os, no_such_module\n")
    assert project.run(set={"stages.server.with.number": 2}).exit_code == 3
    project.edit("stages.py", ", no_such_module", "")
    assert server_of(project, 3) == first
