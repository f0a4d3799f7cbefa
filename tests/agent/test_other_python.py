"""An agent on another minor version of Python, beside one that can be used."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

import orun
from orun.cli.doctor import command as doctor
from orun.core.events import Event, Notice
from orun.errors import UsageError
from tests.agent.support import AgentProcess, make_project
from tests.project import outcomes
from tests.site_packages import CHECKOUT

pytestmark = pytest.mark.slow
MINORS = range(11, 15)  # that orun supports


def find_other_python() -> str:
    """Return a Python of another minor version that orun supports, on the path or of pyenv; empty if there is none."""
    names = [f"python3.{minor}" for minor in MINORS if minor != sys.version_info.minor]
    versions = Path.home() / ".pyenv" / "versions"
    candidates = chain(map(shutil.which, names), *(versions.glob(f"*/bin/{name}") for name in names))
    return next((str(path) for path in candidates if path and works(str(path))), "")


def works(python: str) -> bool:
    """Return whether a Python can be started."""
    return subprocess.run([python, "-V"], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The other Python, in an environment with what an agent needs."""
    if not (python := find_other_python()):
        pytest.skip("no other version of Python is installed here")
    folder = tmp_path_factory.mktemp("other-python")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    subprocess.run([python, "-m", "venv", folder], check=True)
    needed = *project["dependencies"], *project["optional-dependencies"]["remote"]
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *needed], check=True)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory, other_python: str) -> Iterator[tuple[AgentProcess, AgentProcess]]:
    """Machine `a`, which can be used, and `other`."""
    folder, variables = tmp_path_factory.mktemp("machines"), {"PYTHONPATH": str(CHECKOUT)}
    with (
        AgentProcess.start("a", folder / "a") as agent,
        AgentProcess.start("other", folder / "other", variables=variables, python=other_python) as other,
    ):
        yield agent, other


@pytest.fixture(scope="module")
def texts(agents: tuple[AgentProcess, AgentProcess], other_python: str) -> tuple[str, str, str]:
    """What the other machine is refused with: the problem, why, and what to do."""
    command = [other_python, "-c", "import platform; print(platform.python_version())"]
    there = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    here = platform.python_version()
    minor_here, minor_there = here.rpartition(".")[0], there.rpartition(".")[0]
    return (
        f"machine other runs Python {there}, and this one {here}",
        f"the agent at {agents[1].url} has another minor version: stages would run on other libraries",
        f"Start the agent there with Python {minor_here}, or run here with {minor_there}",
    )


def test_a_machine_with_another_python_is_refused(
    agents: tuple[AgentProcess, AgentProcess], texts: tuple[str, str, str], tmp_path: Path
) -> None:
    file = make_project(tmp_path / "project")
    with pytest.raises(UsageError) as caught:
        orun.run(file, store=tmp_path / "store", remote=f"file://{tmp_path}/remote", executor=agents[1].url)
    problem, why, hint = texts
    assert str(caught.value) == f"{problem}\n  {why}\n  hint: {hint}"


def test_a_run_goes_on_without_the_machine_and_says_why(
    agents: tuple[AgentProcess, AgentProcess], texts: tuple[str, str, str], tmp_path: Path
) -> None:
    file, events = make_project(tmp_path / "project"), list[Event]()
    urls, store, remote = f"{agents[1].url},{agents[0].url}", tmp_path / "store", f"file://{tmp_path}/remote"
    problem, why, hint = texts
    warning = f"{problem}: {why} (hint: {hint})"
    assert orun.plan(file, store=store, remote=remote, executor=urls).left_out == (warning,)
    result = orun.run(file, to=["upper"], store=store, remote=remote, executor=urls, on_event=events.append)
    assert outcomes(result) == {"make": "built", "upper": "built"}
    assert {result["make"].machine, result["upper"].machine} == {"a"}
    assert [event.text for event in events if isinstance(event, Notice) and event.level == "warning"] == [warning]
    answer = CliRunner().invoke(doctor, ["--on", urls], standalone_mode=False)
    assert (answer.return_value, answer.stderr) == (2, f"warning: {warning}\n")
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["machine", "a"]
