"""Two agents as real processes build stages of a driver's project, and every end of an order."""

from __future__ import annotations

import os
import platform
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Timer

import onnx
import pytest

from orun.agent import client
from orun.agent.address import Address, GivenAddresses, read_token
from orun.agent.client import SocketFleet, connect
from orun.agent.connection import strip_patch
from orun.agent.frames import Hello, encode_frame
from orun.agent.local_machine import describe_machine
from orun.core.component_kinds import ComponentKind
from orun.core.events import Notice
from orun.core.key_component import find_value
from orun.core.machines import Built, Failed, Joined, Leaving, Lost, Refused
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Failure
from orun.core.serialization import from_json, replace
from orun.core.source_location import Position
from orun.environment.env_vars import AGENT_TOKEN, set_variable
from orun.errors import StoreError, UsageError
from orun.executors import Progress
from orun.runner.fleet import FleetMessage
from tests.agent.support import PATIENCE, AgentProcess, Driver, ended, make_project, serving

MODEL = "stages: {import: {uses: convert/onnx, with: {path: model.onnx}}}\n"
LINK = "stages: {read: {uses: ./stages.py:read, with: {name: link.txt}}}\n"
IMPORTS = "stages: {imports: {uses: ./imports.py:imports}}\n"
OTHER_TEXT = """
stages:
  make: {uses: ./stages.py:make, with: {text: c d}}
  upper: {uses: ./stages.py:upper, needs: make}
"""
MINOR = strip_patch(platform.python_version())
LABELS = ("--label", "role=builder", "--resources", "cpus=2,memory=2GB")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all machines of this file."""
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def agents(folder: Path) -> Iterator[tuple[AgentProcess, AgentProcess]]:
    """Two machines, `a` and `b`, and the lock of a third one for the driver, which this process is."""
    both = (
        AgentProcess.start("a", folder / "a", *LABELS),
        AgentProcess.start("b", folder / "b", variables={"MARK": "of b", "RAY_MARK": "of Ray", AGENT_TOKEN: "of b"}),
    )
    with set_variable("ORUN_LOCKS", str(folder)):
        yield both
    assert [agent.stop() for agent in both] == [0, 0]
    assert not any(Path(agent.url.removeprefix("unix://")).exists() for agent in both)


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    """The pipeline file of the driver's project."""
    return make_project(folder / "driver" / "project")


@pytest.fixture
def driver(folder: Path, file: Path, agents: tuple[AgentProcess, AgentProcess], tmp_path: Path) -> Iterator[Driver]:
    """A driver of both machines."""
    driver = Driver.of(file, tmp_path / "store", f"file://{folder / 'remote'}", agents)
    driver.plan()
    yield driver
    driver.close()


def test_machines_describe_themselves(driver: Driver) -> None:
    first, second = driver.fleet.machines()
    assert (first.id, first.labels["role"], first.cores, first.memory) == ("a", "builder", 2, 2 * 10**9)
    assert second.id == "b"
    assert second.labels == {"architecture": os.uname().machine, "system": "linux"}
    assert first.free
    assert first.versions["onnx"]


def test_a_pipeline_is_built_on_two_machines(driver: Driver) -> None:
    assert driver.content(driver.build("make", "a")) == b"a b"
    assert driver.texts == {"make": "made of a b\n"}
    assert driver.progress == [Progress("make", 1, 2, "words")]
    assert driver.content(driver.build("upper", "b")) == b"A B"


def test_what_did_not_arrive_from_the_remote_is_named_and_pushed_again(driver: Driver) -> None:
    driver.use("other.yaml", OTHER_TEXT)
    driver.build("make", "a")
    (text,) = [path for path in Path(driver.remote[7:]).glob("objects/*/*") if path.read_bytes() == b"c d"]
    text.chmod(0o644)
    text.write_bytes(b"c e")
    driver.fleet.start(driver.order("upper"), "b")
    failed = driver.last("upper")
    assert isinstance(failed, Failed)
    assert (failed.failure.problem, failed.lacks) == (
        f"b did not get the result of make from the remote {driver.remote}", "make",
    )  # fmt: skip
    driver.fleet.start(driver.order("make", repair=True), "a")
    assert isinstance(driver.last("make"), Built)
    assert text.read_bytes() == b"c d"


def test_a_real_model_is_built(driver: Driver) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Abs(x) }'
    onnx.save(onnx.parser.parse_model(text), driver.file.with_name("model.onnx"))
    driver.use("model.yaml", MODEL)
    model = onnx.load_from_string(driver.content(driver.build("import", "a")))
    assert [node.op_type for node in model.graph.node] == ["Abs"]


def test_facts_are_those_of_each_machine(driver: Driver) -> None:
    facts = {each.machine: each for each in driver.fleet.facts(driver.snapshot, driver.remote)}
    assert list(facts) == ["a", "b"]
    assert facts["a"].find_facts("make") == facts["b"].find_facts("make")
    assert facts["a"].find_facts("variable") != facts["b"].find_facts("variable")
    assert facts["a"].packages["onnx"] == driver.fleet.machines()[0].versions["onnx"]
    assert facts["a"].variables["HOME"] != facts["b"].variables["HOME"]
    assert not {"RAY_MARK", AGENT_TOKEN} & facts["b"].variables.keys()


def test_an_order_with_another_key_is_refused_with_what_differs(driver: Driver) -> None:
    driver.fleet.start(driver.order("variable"), "b")
    facts = {each.machine: each for each in driver.fleet.facts(driver.snapshot, driver.remote)}
    mark = find_value(facts["b"].find_facts("variable").components, ComponentKind.VARIABLE, "MARK")
    differing = build_reason(ReasonCode.VARIABLE_CHANGED, subject="MARK", old="unset", new=mark)
    assert driver.last("variable") == Refused("variable", "b", (differing,))


def test_a_file_that_git_ignores_is_named(driver: Driver) -> None:
    driver.fleet.start(driver.order("read"), "a")
    failure = Failure(
        "NotPortable",
        "read reads data/x.txt, which did not come to a with the project",
        "git ignores data/: a machine gets what git tracks, and files that git does not ignore",
        "List it in the pipeline file: ship: [data]",
    )
    assert driver.last("read") == Failed("read", "a", failure)


def test_a_link_that_stayed_behind_is_named_with_the_reason(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()
    driver.file.with_name("link.txt").symlink_to(tmp_path / "x.txt")
    driver.use("link.yaml", LINK)
    driver.fleet.start(driver.order("read"), "a")
    driver.file.with_name("link.txt").unlink()
    failure = Failure(
        "NotPortable",
        "read reads link.txt, which did not come to a with the project",
        "link.txt: it is a link that leads out of the project, or to nothing that travels",
        "Put the file or folder itself into the project, under a plain name",
    )
    assert driver.last("read") == Failed("read", "a", failure)


def test_a_stage_that_fails_for_want_of_a_file_is_told_how_it_travels(driver: Driver) -> None:
    driver.fleet.start(driver.order("need"), "a")
    failed = driver.last("need")
    assert isinstance(failed, Failed)
    assert failed.failure == Failure(
        "StageFailed",
        "need raised FileNotFoundError: [Errno 2] No such file or directory: 'data/x.txt'",
        "at stages.py:32 in need\n"
        "git ignores data/: a machine gets what git tracks, and files that git does not ignore",
        f"List it in the pipeline file: ship: [data]\nIts log: {failed.failure.log}\n"
        "Run it alone: orun pipeline.yaml --only need",
        failed.failure.log,
        "List it in the pipeline file: ship: [data]",
        "orun pipeline.yaml --only need",
        Position("stages.py", 32, 1),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data/x.txt", "./data/x.txt"])
def test_a_relative_name_of_a_file_that_git_ignores_is_told_how_it_travels(driver: Driver, name: str) -> None:
    """A stage runs in a folder of its own, so that the error had no path of the project."""
    code = f"from orun import stage\n\n@stage(inputs={{}})\ndef opens(context):\n    open({name!r})\n"
    driver.file.with_name("opens.py").write_text(code)
    driver.use("opens.yaml", IMPORTS.replace("imports", "opens"))
    driver.fleet.start(driver.order("opens"), "a")
    failed = driver.last("opens")
    assert isinstance(failed, Failed)
    assert failed.failure.why == (
        "at opens.py:5 in opens\ngit ignores data/: a machine gets what git tracks, and files that git does not ignore"
    )
    assert failed.failure.advice == "List it in the pipeline file: ship: [data]"


def test_a_module_that_git_ignores_is_not_to_be_installed(driver: Driver) -> None:
    code = "from orun import stage\n\n@stage(inputs={})\ndef imports(context):\n    import data\n"
    driver.file.with_name("imports.py").write_text(code)
    driver.use("imports.yaml", IMPORTS)
    driver.fleet.start(driver.order("imports"), "a")
    failed = driver.last("imports")
    assert isinstance(failed, Failed)
    assert failed.failure == Failure(
        "StageFailed",
        "on a: imports raised ModuleNotFoundError: No module named 'data'",
        "at imports.py:5 in imports\n"
        "git ignores data/: a machine gets what git tracks, and files that git does not ignore",
        f"List it in the pipeline file: ship: [data]\nIts log: {failed.failure.log}\n"
        "Run it alone: orun imports.yaml --only imports",
        failed.failure.log,
        "List it in the pipeline file: ship: [data]",
        "orun imports.yaml --only imports",
        Position("imports.py", 5, 1),
    )


def test_a_write_beside_the_output_is_refused(driver: Driver, agents: tuple[AgentProcess, AgentProcess]) -> None:
    driver.fleet.start(driver.order("write"), "a")
    failure = Failure(
        "NotPortable",
        "write writes notes.txt, beside its output",
        "on a nothing is kept but the output",
        "Write it to context.output",
    )
    assert driver.last("write") == Failed("write", "a", failure)
    driver.build("make", "a")  # in the project's folder, made anew
    folder = agents[0].folder / "store" / "snapshots" / driver.snapshot.tree
    assert "notes.txt" not in {path.name for path in folder.iterdir()}


def test_a_measurement_replaces_the_last_one(driver: Driver) -> None:
    trees = []
    for _ in range(2):
        driver.fleet.start(driver.order("measure", again=True), "a")
        built = driver.last("measure")
        assert isinstance(built, Built)
        trees.append(from_json(built.record.encode().partition(b"\n")[2])["tree"])
    assert trees[0] != trees[1]
    assert [action.tree for action in driver.records(driver.order("measure").key)] == trees[1:]


@pytest.mark.slow
def test_a_stored_result_is_pushed_without_a_second_run(driver: Driver) -> None:
    driver.build("make", "a")
    driver.texts.clear()
    driver.fleet.start(driver.order("make"), "a")
    assert isinstance(driver.last("make"), Built)
    assert driver.texts == {}


def test_a_cancelled_stage_ends_with_its_child(driver: Driver) -> None:
    driver.fleet.start(driver.order("sleep"), "a")
    _, parent, child = driver.printed("sleep", "processes").split()
    driver.fleet.cancel("sleep")
    failed = driver.last("sleep")
    assert isinstance(failed, Failed)
    assert (failed.failure.error, failed.failure.problem, failed.failure.why) == (
        "StageFailed",
        "sleep was stopped",
        "the run was interrupted",
    )
    assert ended(int(parent))
    assert ended(int(child))


@pytest.mark.slow
def test_two_drivers_run_stages_of_one_name_side_by_side(
    driver: Driver, agents: tuple[AgentProcess, AgentProcess], tmp_path: Path
) -> None:
    other = Driver.of(make_project(tmp_path / "other", seed=1), tmp_path / "other-store", driver.remote, agents[:1])
    other.plan()
    processes = []
    for each in (driver, other):
        each.fleet.start(each.order("sleep"), "a")
        processes.append(int(each.printed("sleep", "processes").split()[1]))
    other.close()  # stops its own alone
    assert ended(processes[1])
    assert not driver.fleet.wait(0.0)
    driver.fleet.cancel("sleep")
    assert isinstance(driver.last("sleep"), Failed)
    assert ended(processes[0])


@pytest.fixture
def third(driver: Driver, tmp_path: Path) -> Iterator[AgentProcess]:
    """One more machine, `c`."""
    with AgentProcess.start("c", tmp_path / "c") as agent:
        driver.add(agent)
        yield agent


def test_a_machine_that_does_not_tell_its_facts_takes_no_part(
    driver: Driver, agents: tuple[AgentProcess, AgentProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.fleet.facts(driver.snapshot, driver.remote)  # both have the project now, and answer at once
    monkeypatch.setattr(client, "FACTS_SECONDS", 1.0)
    agents[1].process.send_signal(signal.SIGSTOP)
    try:
        facts = driver.fleet.facts(driver.snapshot, driver.remote)
    finally:
        agents[1].process.send_signal(signal.SIGCONT)
    assert [item.machine for item in facts] == ["a"]
    assert driver.fleet.wait(0.0) == [
        Notice("warning", "machine b takes no part yet: it has not told its facts in 1 s; see what its agent prints")
    ]


def test_another_thread_ends_the_wait(driver: Driver) -> None:
    """It would else outlast the time that a test may take."""
    Timer(0.1, driver.fleet.wake).start()
    assert driver.fleet.wait(3600.0) == []


def test_a_killed_agent_loses_its_stage_and_leaves_no_process(driver: Driver, third: AgentProcess) -> None:
    driver.fleet.start(driver.order("sleep"), "c")
    _, *processes = driver.printed("sleep", "processes").split()
    third.process.kill()
    assert driver.last("sleep") == Lost("sleep", "c", "its agent has ended")
    assert all(ended(int(process)) for process in processes)
    assert [machine.id for machine in driver.fleet.machines()] == ["a", "b"]
    driver.fleet.start(driver.order("sleep"), "c")
    assert driver.last("sleep") == Lost("sleep", "c", "it is not connected any more", started=False)


def test_an_agent_that_is_stopped_finishes_what_runs_and_hands_back_the_rest(
    driver: Driver, third: AgentProcess
) -> None:
    driver.fleet.start(driver.order("nap"), "c")
    _, sleeper = driver.printed("nap", "napping").split()
    third.process.terminate()
    wait_for_leaving(driver)
    assert "c" not in [machine.id for machine in driver.fleet.machines()]
    driver.fleet.start(driver.order("make"), "c")
    assert driver.last("make") == Lost("make", "c", "its agent stops (SIGTERM)", started=False)
    os.kill(int(sleeper), signal.SIGUSR1)
    assert isinstance(driver.last("nap"), Built)
    assert third.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_second_signal_stops_an_agent_at_once(driver: Driver, third: AgentProcess) -> None:
    driver.fleet.start(driver.order("sleep"), "c")
    _, *processes = driver.printed("sleep", "processes").split()
    third.process.terminate()
    wait_for_leaving(driver)
    assert third.stop() == 0
    assert driver.last("sleep") == Lost("sleep", "c", "the agent was stopped (SIGTERM)")
    assert all(ended(int(process)) for process in processes)


@pytest.mark.slow
def test_a_stage_that_does_not_end_in_time_is_stopped_with_its_agent(driver: Driver, tmp_path: Path) -> None:
    with AgentProcess.start("d", tmp_path / "d", "--grace", "100ms") as agent:
        driver.add(agent)
        driver.fleet.start(driver.order("sleep"), "d")
        driver.printed("sleep", "processes")
        assert agent.stop() == 0
        assert driver.last("sleep") == Lost("sleep", "d", "the agent was stopped (SIGTERM)")


def wait_for_leaving(driver: Driver) -> None:
    """Wait until an agent says that it takes no more orders."""
    messages: list[FleetMessage] = []
    while not any(isinstance(message, Leaving) for message in messages):
        messages = driver.fleet.wait(PATIENCE)
        assert messages


def test_an_agent_that_does_not_answer_at_first_is_left_out(agents: tuple[AgentProcess, AgentProcess]) -> None:
    fleet = connect(f"unix:///nowhere/socket,{agents[0].url}")
    assert [machine.id for machine in fleet.machines()] == ["a"]
    text = (
        "no agent answers at unix:///nowhere/socket: No such file or directory "
        "(hint: start an agent there: orun agent --listen unix:///nowhere/socket)"
    )
    assert fleet.wait(0.0) == [Notice("warning", text)]
    fleet.close()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"orun": "another"},
            (
                "machine c runs another orun than this one\n"
                "  the agent at {url} has other code: keys and results would not be comparable\n"
                "  hint: Install the same version on both, and start the agent there again"
            ),
        ),
        (
            {"python": "3.8.1"},
            (
                f"machine c runs Python 3.8.1, and this one {platform.python_version()}\n"
                "  the agent at {url} has another minor version: stages would run on other libraries\n"
                f"  hint: Start the agent there with Python {MINOR}, or run here with 3.8"
            ),
        ),
    ],
)
def test_a_machine_that_differs_is_refused_at_once(tmp_path: Path, changes: Mapping[str, str], error: str) -> None:
    url = f"unix://{tmp_path / 'socket'}"
    machine = replace(describe_machine("c"), **changes)
    with serving(Address.parse(url), machine, tmp_path), pytest.raises(UsageError) as caught:
        connect(url)
    assert str(caught.value) == error.format(url=url)


@pytest.mark.slow
def test_an_agent_that_comes_back_joins_as_soon_as_it_is_connected(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the fleet would wait for a message: a connection that is made ends that."""
    monkeypatch.setattr(client, "BEAT_SECONDS", 3600.0)
    url = f"unix://{tmp_path / 'socket'}"
    with AgentProcess.start("d", tmp_path / "d", url=url) as first:
        fleet = connect(url)
        first.process.kill()
    fleet.look(driver.snapshot, driver.remote)
    fleet.wait(0.1)
    assert fleet.machines() == ()
    with AgentProcess.start("d", tmp_path / "e", url=url):
        fleet.look(driver.snapshot, driver.remote)
        (joined,) = fleet.wait(PATIENCE)
        assert isinstance(joined, Joined)
        assert (joined.machine.id, joined.facts.machine) == ("d", "d")
        fleet.close()


@pytest.mark.slow
def test_stages_of_a_silent_driver_end(driver: Driver, tmp_path: Path) -> None:
    with AgentProcess.start("c", tmp_path / "c", lease=1.0) as agent:
        driver.fleet.close()
        driver.fleet = SocketFleet(GivenAddresses({agent.url: Address.parse(agent.url)}), lease=1.0)
        driver.fleet.start(driver.order("sleep"), "c")
        _, *processes = driver.printed("sleep", "processes").split()
        driver.fleet.beater.stop()  # as if this process was stopped
        assert driver.last("sleep") == Lost("sleep", "c", "its agent has ended")
        assert all(ended(int(process)) for process in processes)


def test_tcp_asks_for_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token of some letters\n")
    token.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    started = "with the FILE that it was started with: orun agent --token-file FILE"
    set_token = f"export ORUN_AGENT_TOKEN=$(cat FILE), {started}"
    with AgentProcess.start("c", tmp_path / "c", "--token-file", str(token), url=url):
        with pytest.raises(UsageError) as caught:
            connect(url, {})
        assert str(caught.value) == f"the agent at {url} asks for a token\n  hint: {set_token}"
        with pytest.raises(UsageError) as caught:
            connect(url, {AGENT_TOKEN: "another token"})
        assert str(caught.value) == (
            f"the agent at {url} refuses this driver\n"
            "  it has another token, or it has ended\n"
            f"  hint: see what it prints on its machine; if it asks for a token: {set_token}"
        )
        fleet = connect(url, {AGENT_TOKEN: "a token of some letters"})
        assert [machine.id for machine in fleet.machines()] == ["c"]
        fleet.close()


def test_an_attempt_that_fails_in_whatever_way_ends() -> None:
    with pytest.raises(UnicodeError, match="label empty or too long"):
        SocketFleet(GivenAddresses({"gpu": Address(host="gpu..lan", port=7777)}))


def test_a_proof_that_is_no_ascii_ends_the_connection_and_not_the_agent(tmp_path: Path) -> None:
    lines: list[str] = []
    address = Address(host="127.0.0.1", token="a token of some letters")  # noqa: S106 - no secret
    with serving(address, describe_machine("c"), tmp_path, lines.append) as service:
        with socket.create_connection((service.address.host, service.address.port)) as connection:
            connection.sendall(encode_frame(Hello("a driver", "é")))
            while connection.recv(4096):
                pass
        fleet = SocketFleet(GivenAddresses({"c": service.address}))
        assert [machine.id for machine in fleet.machines()] == ["c"]
        fleet.close()
    assert lines[0] == "a driver is not connected any more: it does not know the token"


def test_a_token_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "no token"
    with pytest.raises(UsageError) as caught:
        read_token(file)
    assert str(caught.value) == (
        f"there is no token file {file}\n  hint: openssl rand -hex 32 > '{file}' && chmod 600 '{file}'"
    )


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(b"\xff" * 32, "the token {file} is no text\n  hint: openssl rand -hex 32 > {file}", id="bytes"),
        (b"short", "the token {file} is too short: it needs 16 characters\n  hint: openssl rand -hex 32 > {file}"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, error: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        read_token(file)
    assert str(caught.value) == error.format(file=file)


def make_sparse(file: Path) -> None:
    file.touch()
    os.truncate(file, 30 << 30)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (os.mkfifo, "Not a regular file"),
        (lambda file: file.symlink_to("/dev/zero"), "Not a regular file"),
        (make_sparse, "File too large: more than 4 MiB"),
    ],
    ids=["pipe", "device", "sparse"],
)
def test_a_token_that_cannot_end_is_not_read(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    file = tmp_path / "token"
    make(file)
    with pytest.raises(StoreError) as caught:
        read_token(file)
    assert str(caught.value) == (
        f"cannot read the token {file}: {problem[0].lower()}{problem[1:]}\n  {file}: {problem}\n"
        f"  hint: Look at what is there: ls -ld {file}"
    )


EXPECTED = "expected unix:///run/user/1000/orun.sock, or tcp://127.0.0.1:7777"
LONG = "/" + 107 * "a"


@pytest.mark.parametrize(
    ("url", "token", "error"),
    [
        (
            "tcp://127.0.0.1:7777",
            "",
            (
                "tcp://127.0.0.1:7777 needs a token\n"
                "  everybody who reaches the port could run code as this user\n"
                "  hint: openssl rand -hex 32 > token; chmod 600 token; orun agent --listen ... --token-file token"
            ),
        ),
        (
            "tcp://0.0.0.0:7777",
            "a token of some letters",
            "tcp://0.0.0.0:7777 is every network of this machine\n  name the address of a private one",
        ),
        (
            "tcp://192.0.2.1:7777",  # an address of examples, RFC 5737
            "a token of some letters",
            (
                "cannot listen at tcp://192.0.2.1:7777\n  Cannot assign requested address\n"
                "  hint: name an address of this machine (hostname -I), and a port from 1024: --listen URL"
            ),
        ),
        ("http://127.0.0.1:7777", "", f"no agent can be at 'http://127.0.0.1:7777'\n  {EXPECTED}"),
        ("tcp://10.0.0.7", "", f"no agent can be at 'tcp://10.0.0.7'\n  {EXPECTED}"),
        ("tcp://gpu..lan:7777", "", f"no agent can be at 'tcp://gpu..lan:7777'\n  {EXPECTED}"),
        ("unix://socket", "", f"no agent can be at 'unix://socket'\n  {EXPECTED}"),
        ("unix:///dev", "", "/dev is no socket\n  hint: ls -l /dev"),
        (
            f"unix://{LONG}",
            "",
            (
                f"{LONG} is too long for a socket\n  107 bytes are the most\n"
                "  hint: choose a shorter path, as unix:///run/user/1000/orun.sock"
            ),
        ),
    ],
)
def test_an_address_that_is_not_safe_or_possible_is_refused(url: str, token: str, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address.parse(url, token).listen()
    assert str(caught.value) == error


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError) as caught:
            Address.parse(url, "a token of some letters").listen()
    assert str(caught.value) == f"another process listens at {url}\n  hint: choose another port: --listen URL"


def test_two_machines_of_one_name_are_refused(driver: Driver, agents: tuple[AgentProcess, AgentProcess]) -> None:
    driver.add(agents[0], "elsewhere")
    hint = "give one of them a name of its own: orun agent --name NAME ..."
    text = f"two machines are called a: those at {agents[0].url} and elsewhere (hint: {hint})"
    assert driver.fleet.wait(0.0) == [Notice("warning", text)]


def test_a_second_agent_at_one_socket_is_refused(agents: tuple[AgentProcess, AgentProcess]) -> None:
    path = Path(agents[0].url.removeprefix("unix://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError) as caught:
        Address.parse(agents[0].url).listen()
    assert str(caught.value) == (f"another agent listens at {agents[0].url}\n  hint: choose another path: --listen URL")
