"""Whole runs on two agents in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import orun
from orun.agent.address import Address
from orun.agent.local_machine import describe_machine
from orun.core.events import Event, Notice, Planning, StageStarted
from orun.errors import NoMachine
from orun.text.wording.reasons import describe_reasons
from tests.agent.support import AgentProcess, make_project, serving
from tests.project import outcomes

SHORT = """
name: text
stages:
  make: {uses: ./stages.py:make}
  upper: {uses: ./stages.py:upper, needs: make}
"""
BUILT = ["make", "upper", "measure"]


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentProcess, AgentProcess]]:
    """Two machines, `one` and `two`."""
    folder = tmp_path_factory.mktemp("machines")
    with (
        AgentProcess.start("one", folder / "one") as first,
        AgentProcess.start("two", folder / "two", "--label", "accelerator=T4") as second,
    ):
        yield first, second


@pytest.fixture
def third(tmp_path: Path) -> Iterator[AgentProcess]:
    """One more machine, which a test may stop."""
    with AgentProcess.start("three", tmp_path / "three") as agent:
        yield agent


def urls_of(*agents: AgentProcess) -> str:
    """Where agents listen, as a run is told."""
    return ",".join(agent.url for agent in agents)


def test_a_run_on_two_machines_ends_like_a_local_one(tmp_path: Path, agents: tuple[AgentProcess, AgentProcess]) -> None:
    file, urls = make_project(tmp_path / "project"), urls_of(*agents)
    remote, override = f"file://{tmp_path}/remote", {"stages.upper.runs_on": "{accelerator: T4}"}

    def run(store: str) -> orun.RunResult:
        return orun.run(
            file, to=["upper", "measure"], set=override, store=tmp_path / store, remote=remote, executor=urls
        )

    first = run("store")
    assert (first.exit_code, outcomes(first)) == (0, dict.fromkeys(BUILT, "built"))
    assert first["upper"].machine == "two"
    assert (tmp_path / "store" / "out" / "text" / "upper" / "text").read_text() == "A B"
    assert outcomes(run("store")) == dict.fromkeys(BUILT, "cached")
    other = run("other")
    assert outcomes(other) == {"make": "cached", "upper": "cached", "measure": "built"}, (
        "a measurement is no result to fetch"
    )
    local = orun.run(file, to=["upper"], set=override, store=tmp_path / "store", remote=remote)
    assert outcomes(local) == {"make": "cached", "upper": "cached"}, "this machine has the same facts"


@pytest.mark.slow
def test_a_run_with_nothing_to_do_asks_the_machines_for_their_facts(
    tmp_path: Path, agents: tuple[AgentProcess, AgentProcess], third: AgentProcess
) -> None:
    file, urls = make_project(tmp_path / "project"), urls_of(third, agents[1])
    file.write_text(SHORT, encoding="utf-8")
    events: list[Event] = []

    def run() -> orun.RunResult:
        events.clear()
        remote = f"file://{tmp_path}/remote"
        return orun.run(file, store=tmp_path / "store", remote=remote, executor=urls, on_event=events.append)

    first, again = run(), run()
    assert outcomes(first) == {"make": "built", "upper": "built"}
    assert (again.repeats, outcomes(again)) == (first.run, {"make": "cached", "upper": "cached"})
    assert again["upper"].machine == first["upper"].machine
    notice = f"the machines at {urls} have the facts that the results depend on"
    assert [event.text for event in events if isinstance(event, Notice)] == [notice]
    activities = [event.activity for event in events if isinstance(event, Planning)]
    assert activities == [f"asking the machines at {urls} for their facts"]
    third.stop()
    with AgentProcess.start("three", tmp_path / "anew", url=third.url, variables={"MARK": "new"}):
        planned = run()
        assert (planned.repeats, outcomes(planned)) == ("", outcomes(again)), "a machine has changed"
        assert run().repeats == planned.run


@pytest.mark.slow
def test_an_agent_that_dies_is_replaced(
    tmp_path: Path, agents: tuple[AgentProcess, AgentProcess], third: AgentProcess
) -> None:
    file = make_project(tmp_path / "project")
    events: list[Event] = []

    def kill(event: Event) -> None:
        events.append(event)
        if isinstance(event, StageStarted) and event.machine == "three":
            third.process.kill()

    result = orun.run(
        file,
        only=["make"],
        force=["make"],  # the second machine may have it of another run
        store=tmp_path / "store",
        remote=f"file://{tmp_path}/remote",
        executor=urls_of(third, agents[1]),
        on_event=kill,
    )
    assert (result.exit_code, result["make"].machine) == (0, "two")
    (notice,) = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert notice.startswith("machine three was lost after ")
    assert notice.endswith("; make starts again on two (1 of 2)")


def test_a_result_that_an_agent_has_is_cached(tmp_path: Path, agents: tuple[AgentProcess, AgentProcess]) -> None:
    file = make_project(tmp_path / "project")

    def run(name: str) -> tuple[str, tuple[str, ...]]:
        """Run with a store and a remote of that name; return what became of the stage, and why."""
        remote = f"file://{tmp_path}/remote-{name}"
        override = {"stages.make.with.text": "stored before"}
        store = tmp_path / name
        result = orun.run(file, only=["make"], set=override, store=store, remote=remote, executor=agents[0].url)
        return result["make"].outcome, describe_reasons(result["make"].reasons)

    assert run("first") == ("built", ("never run before",))
    assert run("second") == ("cached", ("one had its result", "up to date"))
    assert run("second") == ("cached", ("up to date",)), "nothing to do"


def test_a_variable_that_is_set_here_and_not_on_the_machine_is_named(
    tmp_path: Path, agents: tuple[AgentProcess, AgentProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", "of the run")
    events: list[Event] = []
    result = orun.run(
        make_project(tmp_path / "project"),
        only=["variable"],
        store=tmp_path / "store",
        remote=f"file://{tmp_path}/remote",
        executor=agents[0].url,
        on_event=events.append,
    )
    assert outcomes(result) == {"variable": "built"}
    assert [event.text for event in events if isinstance(event, Notice) and event.level == "warning"] == [
        "variable looked for MARK, set here and not on one: variables do not travel; set MARK where the agent runs"
    ]


@pytest.mark.slow
def test_a_project_that_was_damaged_in_the_remote_is_pushed_again(
    tmp_path: Path, agents: tuple[AgentProcess, AgentProcess]
) -> None:
    file = make_project(tmp_path / "project", seed=7)  # which no other test sends
    events: list[Event] = []

    def run(agent: AgentProcess) -> orun.RunResult:
        return orun.run(
            file,
            only=["make"],
            force=["make"],
            store=tmp_path / "store",
            remote=f"file://{tmp_path}/remote",
            executor=agent.url,
            on_event=events.append,
        )

    assert run(agents[0]).exit_code == 0
    for path in (tmp_path / "remote").glob("objects/*/*"):
        path.chmod(0o644)
        path.write_bytes(b"?" + path.read_bytes()[1:])
    again = run(agents[1])
    assert (again.exit_code, again["make"].machine) == (0, "two")
    assert not any(isinstance(event, Notice) for event in events)


@pytest.mark.slow
def test_an_agent_with_the_store_of_the_run_takes_no_part(tmp_path: Path) -> None:
    file, url = make_project(tmp_path / "project"), f"unix://{tmp_path / 'socket'}"
    with serving(Address.parse(url), describe_machine("c"), tmp_path), pytest.raises(NoMachine) as caught:
        orun.run(file, store=tmp_path / "store", remote=f"file://{tmp_path}/remote", executor=url)
    assert str(caught.value) == (
        "no machine that was found can be used\n"
        "  the agent of machine c uses the store of this run: each would wait for the other's stages "
        "(hint: start it with a store of its own: orun agent --store DIR ...)\n"
        "  hint: start one with: orun agent --listen URL, or wait for one: --wait 30m"
    )
