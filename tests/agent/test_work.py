"""Orders within this process: their order, what is refused, and what the agent's user set."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from orun.agent.client import LAST
from orun.agent.frames import Cancel, FactsFailed, FactsRequest, FrameError, FrameReader, Message
from orun.agent.local_machine import become_plain, describe_machine
from orun.agent.orders import StageOrder
from orun.agent.peer import Peer
from orun.agent.work import Work
from orun.core.machines import Built, Failed, Lost, Order, Snapshot
from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.environment.resources import Resources
from orun.store import Store
from tests.agent.support import PATIENCE, Driver, make_project

DIGEST = "0" * 64


class Desk:
    """A driver and the work of an agent, in one process.

    Attributes:
        driver: the driver.
        work: the agent's work.
        messages: what the agent sent.
    """

    def __init__(self, folder: Path) -> None:
        remote = f"file://{folder / 'remote'}"
        self.driver = Driver.of(make_project(folder / "project"), folder / "driver", remote, ())
        self.driver.plan()
        self.messages: list[Message] = []
        (folder / "agent").mkdir()
        store = Store.open(folder / "agent" / "store")
        self.work = Work(store, describe_machine("a", lent=Resources(4, 8 * 10**9)), folder / "agent", lambda: None)

    def order(self, *orders: Order) -> None:
        """Send orders."""
        for order in orders:
            self.work.add_order(self, order, self.messages.append)

    def run(self, until: Callable[[], bool]) -> None:
        """Let the agent work until something is so."""
        end = monotonic() + PATIENCE
        while not until():
            assert monotonic() < end, self.messages
            self.work.advance()
            sleep(0.01)

    def last(self, count: int = 1) -> list[Message]:
        """Let the agent work until so many orders have ended; return their last messages."""

        def ends() -> list[Message]:
            return [message for message in self.messages if isinstance(message, LAST)]

        self.run(lambda: len(ends()) >= count)
        return ends()

    def printed(self, text: str) -> bool:
        """Whether a stage has printed a text."""
        return any(text in getattr(message, "text", "") for message in self.messages)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A driver and the work of an agent."""
    desk = Desk(tmp_path)
    yield desk
    desk.work.close("the test ended")
    desk.driver.close()


def test_a_measurement_waits_and_lets_nothing_pass(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StageOrder, "exclusive", property(lambda order: order.name == "measure"))
    desk.order(desk.driver.order("sleep"))
    desk.run(lambda: desk.printed("processes"))
    desk.order(*map(desk.driver.order, ("measure", "make")))
    desk.run(lambda: desk.work.pause == 0.05)
    sleep(0.2)
    desk.work.advance()
    assert not [message for message in desk.messages if isinstance(message, LAST)]
    desk.work.cancel(desk, "sleep")
    stages = [getattr(message, "stage", "") for message in desk.last(3)]
    assert stages == ["sleep", "measure", "make"]


@pytest.mark.slow
def test_stages_beyond_the_cores_wait(desk: Desk) -> None:
    file = desk.driver.file
    file.write_text(file.read_text().replace("sleep: {", "sleep: {resources: {cpus: 4}, "))
    desk.driver.plan()
    desk.order(desk.driver.order("sleep"))
    desk.run(lambda: desk.printed("processes"))
    desk.order(desk.driver.order("make"))
    desk.run(lambda: desk.work.pause == 0.05)
    desk.work.cancel(desk, "sleep")
    assert [type(message) for message in desk.last(2)] == [Failed, Built]


def test_a_read_outside_of_the_project_is_refused(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.txt"
    path.write_text("there")
    file = desk.driver.file
    file.write_text(file.read_text().replace("name: data/x.txt", f"name: {path}", 1))
    desk.driver.plan()
    desk.order(desk.driver.order("read"))
    failure = Failure(
        "NotPortable",
        f"read reads {path}, outside of the project",
        "there may be something else on another machine than on a",
        "Move it into the project, or name it in a parameter of the stage: then its content is in the key",
    )
    assert desk.last() == [Failed("read", "a", failure)]


@pytest.mark.slow
def test_a_result_that_depends_on_a_variable_stays_without_a_shared_key(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", "12345")
    file = desk.driver.file
    file.write_text(file.read_text().replace(", env: [MARK]", ""))
    desk.driver.plan()
    desk.order(desk.driver.order("variable"))
    failure = Failure(
        "StageFailed",
        "the result of variable stays on a: it depends on the variables MARK",
        "digests of their values would be in the remote, where they could be guessed",
        "Set ORUN_REMOTE_KEY to one secret on all machines, or list them under `env` of the stage",
    )
    assert desk.last() == [Failed("variable", "a", failure)]


def test_a_result_is_signed_with_the_agent_s_key(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_REMOTE_KEY", "a secret of the machines")
    desk.order(desk.driver.order("make"))
    (built,) = desk.last()
    assert isinstance(built, Built)
    assert '"hmac-sha256"' in built.record.partition("\n")[0]
    (path,) = Path(desk.driver.remote.removeprefix("file://")).glob("actions/*/*/0")
    assert path.read_text() == built.record


def test_an_input_that_is_not_in_the_remote_fails_the_order(desk: Desk) -> None:
    order = replace(desk.driver.order("make"), snapshot=Snapshot(DIGEST, "pipeline.yaml"))
    desk.order(order)
    failure = Failure(
        "StageFailed",
        f"a did not get the project from the remote {desk.driver.remote}",
        f"make: refused from the remote: objects/00/{DIGEST[2:]} is missing",
    )
    assert desk.last() == [Failed("make", "a", failure)]
    desk.work.add_question(desk, FactsRequest(order.snapshot, order.remote), desk.messages.append)
    desk.run(lambda: isinstance(desk.messages[-1], FactsFailed))
    why = failure.why.replace("make:", "project:")
    assert desk.messages[-1] == FactsFailed(Failure("UsageError", failure.problem, why), lacks_project=True)


@pytest.mark.slow
def test_a_folder_that_all_share_and_that_is_not_there_is_named_with_the_machine(desk: Desk) -> None:
    """Once it is there, the agent that runs finds it."""
    folder = Path(desk.driver.remote.removeprefix("file://"))
    folder.rename(folder.with_name("elsewhere"))
    desk.order(desk.driver.order("make"))
    failure = Failure(
        "StageFailed",
        f"a cannot use the remote file://{folder}",
        f"there is no folder {folder}",
        f"on a: mount what all machines share at {folder}, or make it: mkdir -p {folder}",
    )
    assert desk.last() == [Failed("make", "a", failure)]
    folder.with_name("elsewhere").rename(folder)
    desk.order(desk.driver.order("make"))
    assert isinstance(desk.last(2)[1], Built)


@pytest.mark.slow
def test_a_stage_that_meets_a_full_disk_is_to_be_helped_on_its_machine(desk: Desk) -> None:
    raising = "raise OSError(28, 'No space left on device')"
    code = f"from orun import stage\n\n@stage(inputs={{}})\ndef fill(context):\n    {raising}\n"
    desk.driver.file.with_name("fill.py").write_text(code)
    desk.driver.use("fill.yaml", "name: fill\nstages: {fill: {uses: ./fill.py:fill}}\n")
    desk.order(desk.driver.order("fill"))
    (failed,) = desk.last()
    assert isinstance(failed, Failed)
    assert (failed.failure.error, failed.failure.problem) == ("StageFailed", "on a: the disk is full")
    advice, _, alone = failed.failure.hint.splitlines()
    assert advice.startswith("on a: Nothing that was stored is lost. Free some space and run it again: df -h /")
    assert alone == "Run it alone: orun fill.yaml --only fill"


def test_a_disk_that_takes_nothing_that_arrives_is_that_of_the_machine(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("orun.remote.transfers.set_mode", refuse)
    order = desk.driver.order("make")
    desk.order(order)
    store = desk.work.store.root
    failure = Failure(
        "StoreError",
        f"on a: cannot transfer files of the remote {order.remote}: the disk is full",
        f"{store}: No space left on device",
        f"on a: Nothing that was stored is lost. Free some space and run it again: df -h {store}",
    )
    assert desk.last() == [Failed("make", "a", failure)]


@pytest.mark.parametrize("file", ["../pipeline.yaml", "/etc/passwd"])
def test_a_snapshot_is_held_to_its_folder(desk: Desk, file: str) -> None:
    order = desk.driver.order("make")
    desk.order(replace(order, snapshot=replace(order.snapshot, file=file)))
    desk.order(replace(order, snapshot=replace(order.snapshot, tree="../../x")))
    problems = [f"the pipeline file {file!r} is outside of its project", "'../../x' is no digest"]
    assert [getattr(message, "failure", None) for message in desk.last(2)] == [
        Failure("UsageError", f"on a: {problem}") for problem in problems
    ]


def test_an_agent_sheds_low_priority_and_the_variables_of_ray() -> None:
    code = (
        "import os; from orun.agent.local_machine import OOM_SCORE, become_plain; problems = become_plain(); "
        "print(problems, os.getpriority(os.PRIO_PROCESS, 0), 'RAY_JOB' in os.environ, OOM_SCORE.read_text())"
    )
    command = ["nice", "-n", "7", "sh", "-c", f'echo 500 > /proc/self/oom_score_adj; exec {sys.executable} -c "{code}"']
    process = subprocess.run(command, env={**os.environ, "RAY_JOB": "1"}, capture_output=True, text=True, check=True)
    if os.geteuid() == 0:
        assert process.stdout == "[] 0 False 0\n\n"
    else:
        assert "stages run at nice level 7: measurements are slower than they should be" in process.stdout


def test_an_agent_of_a_ray_worker_sheds_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert become_plain() == []
    assert os.environ["OMP_NUM_THREADS"] == "1", "its user set it"
    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    assert become_plain() == ["OMP_NUM_THREADS=1 of Ray's worker is left out: stages would use so few threads"]
    assert not {"OMP_NUM_THREADS", "RAY_RAYLET_PID"} & os.environ.keys()


def test_nothing_runs_after_orun_was_changed(desk: Desk) -> None:
    desk.work.upkeep.machine = replace(desk.work.machine, orun=DIGEST)
    desk.order(desk.driver.order("make"))
    assert desk.last() == [Lost("make", "a", "orun was changed on a; start the agent there again")]


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(FrameError) as caught:
        FrameReader(longest=10).feed((11).to_bytes(4, "big"))
    assert str(caught.value) == "it sent a message of 11 bytes, and 10 are the most"
    for data in (b"{}", b"[]", b"nothing", b'{"Cancel":{"name":1}}', b'{"Unknown":{}}'):
        with pytest.raises(FrameError, match=r"^it is no message of this version of orun: "):
            FrameReader().feed(len(data).to_bytes(4, "big") + data)


def test_a_connection_that_fails_in_whatever_way_is_closed() -> None:
    unconnected = Peer(socket.socket())
    unconnected.send(Cancel("lost"))
    assert unconnected.receive() == []
    assert unconnected.closed
    unconnected.close()


def test_the_last_messages_of_a_closed_connection_arrive() -> None:
    ours, theirs = map(Peer, socket.socketpair())
    theirs.send(Cancel("last"))
    theirs.close()
    ours.send(Cancel("lost"))  # fails, as nobody reads it
    assert ours.receive() == [Cancel("last")]
    assert ours.closed
    ours.close()


@pytest.mark.slow
def test_an_edited_folder_of_a_snapshot_is_made_anew(desk: Desk, tmp_path: Path) -> None:
    desk.order(desk.driver.order("make"))
    desk.last()
    desk.work.close("the agent ended")
    folder = tmp_path / "agent" / "store" / "snapshots" / desk.driver.snapshot.tree
    folder.chmod(0o755)
    (folder / "stages.py").unlink()
    (folder / "stages.py").write_text("edited")
    desk.messages.clear()
    desk.work = Work(Store.open(tmp_path / "agent" / "store"), describe_machine("a"), tmp_path / "agent", lambda: None)
    desk.order(desk.driver.order("make", again=True))
    assert [type(message) for message in desk.last()] == [Built]
    assert (folder / "stages.py").read_bytes() == (desk.driver.file.parent / "stages.py").read_bytes()
