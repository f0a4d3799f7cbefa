"""Values of environment variables that results depend on: what a remote holds of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.fs.observed_state import digest_value
from tests.facts import describe_reasons, named
from tests.project import Project, built
from tests.remote.support import contents, machine, notices, traffic

PIPELINE = """
name: text
stages:
  mark: {uses: ./stages.py:read, with: {name: none.txt}}
"""
VALUE = "staging"
KEY = "k" * 20
HELD_BACK = (
    "not pushed, because digests of variables' values could be guessed (mark: ORUN_TEST_MARK); "
    "set ORUN_REMOTE_KEY to share these results, or list the variables under `env` of the stage"
)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Project, Project]:
    monkeypatch.setenv("ORUN_TEST_MARK", VALUE)
    for name in (SHARED_KEY, SIGNING_KEY):
        monkeypatch.delenv(name, raising=False)
    return machine(tmp_path, "one", PIPELINE), machine(tmp_path, "other", PIPELINE)


def test_without_a_shared_key_the_result_stays_here(machines: tuple[Project, Project], folder: str) -> None:
    project, other = machines
    assert built(project.run(remote=folder)) == ["mark"]
    assert notices(project) == [HELD_BACK]
    assert traffic(project) == ""
    assert contents(folder) == {}
    assert built(other.run(remote=folder)) == ["mark"]


def test_with_a_shared_key_who_has_key_and_value_finds_the_result(
    machines: tuple[Project, Project], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = machines
    project.run(remote=folder)
    monkeypatch.setenv(SHARED_KEY, KEY)
    assert built(project.run(remote=folder)) == []  # what could not go before goes now
    assert traffic(project) == "1 pushed"
    plain = digest_value("ORUN_TEST_MARK", VALUE).encode()
    assert not [name for name, data in contents(folder).items() if name.startswith("actions/") and plain in data]
    monkeypatch.setenv("ORUN_TEST_MARK", "production")
    assert built(other.run(remote=folder)) == ["mark"]
    monkeypatch.setenv("ORUN_TEST_MARK", VALUE)
    result = other.run(remote=folder)
    assert describe_reasons(result["mark"].reasons)[0] == "fetched from the remote"
    assert named(result["mark"].inputs)["looked up ORUN_TEST_MARK"] == plain.decode()
    assert built(other.run(remote=folder)) == []


@pytest.mark.slow
def test_a_variable_that_is_not_set_holds_nothing_back(
    machines: tuple[Project, Project], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = machines
    monkeypatch.delenv("ORUN_TEST_MARK")
    project.run(remote=folder)
    assert traffic(project) == "1 pushed"
    assert built(other.run(remote=folder)) == []
    monkeypatch.setenv("ORUN_TEST_MARK", VALUE)
    assert built(other.run(remote=folder)) == ["mark"]


@pytest.mark.slow
def test_one_that_the_stage_lists_is_shared_by_its_digest(
    machines: tuple[Project, Project], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = machines
    for project in machines:
        project.edit("pipeline.yaml", "none.txt}", "none.txt}, env: [ORUN_TEST_MARK]")
    first.run(remote=folder)
    assert traffic(first) == "1 pushed"
    assert built(other.run(remote=folder)) == []
    monkeypatch.setenv("ORUN_TEST_MARK", "production")
    assert built(other.run(remote=folder)) == ["mark"]


def test_one_that_orun_has_set_holds_nothing_back(
    machines: tuple[Project, Project], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = machines
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    project.edit("stages.py", '"ORUN_TEST_MARK"', '"PYTHONHASHSEED"')
    project.run(remote=folder)
    assert traffic(project) == "1 pushed"
