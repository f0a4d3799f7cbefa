"""Agents as real processes, and a driver of them: its own store, and a remote that all share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Self

from orun.agent.address import Address, GivenAddresses
from orun.agent.client import SocketFleet
from orun.agent.service import Service
from orun.agent.snapshots import share, take_snapshot
from orun.core.machines import Built, Failed, LogText, Lost, Machine, Order, Refused, Snapshot
from orun.core.serialization import decode, from_json
from orun.environment.call_cache import forget
from orun.executors import Progress
from orun.pipeline import load
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.remote.settings import Settings
from orun.remote.sync import Sync
from orun.runner.fleet import FleetMessage
from orun.store import Action, Store
from tests.git import commit, git

PATIENCE = 60.0  # seconds on a busy machine
LAST = (Built, Failed, Refused, Lost)

STAGES = """
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from orun import stage


@stage(inputs={}, output="files")
def make(context, *, text: str = "a b"):
    print("made of", text)
    context.progress(1, 2, "words")
    (context.output / "text").write_text(text)


@stage(inputs={"text": "files"}, output="files")
def upper(context):
    (context.output / "text").write_text((context.inputs["text"] / "text").read_text().upper())


@stage(inputs={}, output="files")
def read(context, *, name: str):
    path = context.root / name
    (context.output / "text").write_text(path.read_text() if path.exists() else "nothing")


@stage(inputs={}, output="files")
def need(context, *, name: str):
    (context.output / "text").write_text((context.root / name).read_text())


@stage(inputs={}, output="files")
def write(context):
    os.chmod(context.root, 0o755)
    (context.root / "notes.txt").write_text("beside the output")
    (context.output / "text").touch()


@stage(inputs={}, output="files")
def sleep(context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("processes", os.getpid(), child.pid, flush=True)
    time.sleep(600)


@stage(inputs={}, output="files")
def nap(context):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    print("napping", os.getpid(), flush=True)
    signal.sigwait({signal.SIGUSR1})
    (context.output / "text").write_text("rested")


@stage(inputs={}, output="files")
def variable(context):
    (context.output / "text").write_text(os.environ.get("MARK", "") + os.environ.get("RAY_MARK", ""))


@stage(inputs={}, output="files", stage_class="measurement")
def measure(context):
    (context.output / "text").write_text(str(time.time()))
"""
PIPELINE = """
name: text
stages:
  make: {uses: ./stages.py:make}
  upper: {uses: ./stages.py:upper, needs: make}
  read: {uses: ./stages.py:read, with: {name: data/x.txt}}
  need: {uses: ./stages.py:need, with: {name: data/x.txt}}
  write: {uses: ./stages.py:write}
  sleep: {uses: ./stages.py:sleep}
  nap: {uses: ./stages.py:nap}
  variable: {uses: ./stages.py:variable, env: [MARK]}
  measure: {uses: ./stages.py:measure}
"""


def make_project(folder: Path, seed: int = 0) -> Path:
    """Write a project that git knows; return its pipeline file."""
    (folder / "data").mkdir(parents=True)
    files = {
        "pipeline.yaml": f"{PIPELINE}seed: {seed}\n",
        "stages.py": STAGES,
        ".gitignore": "data/\n",
        "data/x.txt": "ignored by git",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "-q")
    commit(folder, "first")
    return folder / "pipeline.yaml"


@dataclass
class AgentProcess:
    """Agent in a process of its own, with a store, a home and a folder of its own.

    Attributes:
        name: of its machine.
        folder: of its store and home.
        url: where it listens.
        process: the process.
    """

    name: str
    folder: Path
    url: str
    process: subprocess.Popen[str]

    @classmethod
    def start(
        cls,
        name: str,
        folder: Path,
        *options: str,
        url: str = "",
        lease: float | None = None,
        variables: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> AgentProcess:
        """Start an agent, with this Python or another one, and wait until it listens."""
        (folder / "home").mkdir(parents=True)
        url = url or f"unix://{folder / 'socket'}"
        arguments = ["agent", "--listen", url, "--name", name, "--store", str(folder / "store"), *options]
        code = "import sys; from orun.agent import service; from orun.cli.main import main; "
        if lease:
            code += f"service.Service.__init__.__kwdefaults__['lease'] = {lease}; "
        process = subprocess.Popen(
            [python, "-c", f"{code}sys.exit(main({arguments!r}))"],
            cwd=folder,
            env={**os.environ, "HOME": str(folder / "home"), "ORUN_LOCKS": str(folder / "home"), **(variables or {})},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stdout.readline() == f"machine {name} listens at {url}\n"
        return cls(name, folder, url, process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> int:
        """End it as a service manager does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        if self.process.stdout:
            self.process.stdout.close()
        return code


@contextmanager
def serving(
    address: Address, machine: Machine, folder: Path, log: Callable[[str], None] = lambda _: None
) -> Iterator[Service]:
    """Agent in a thread of this process, with a store of its own below a folder."""
    with Store.open(folder / "store") as store:
        service = Service(address, machine, store, folder=folder, log=log)
        thread = Thread(target=service.run)
        thread.start()
        try:
            yield service
        finally:
            service.end()
            thread.join()


@dataclass
class Driver:
    """A run's side: decides, orders, and takes results from the remote.

    Attributes:
        file: the pipeline file.
        store: the driver's store.
        remote: URL of the remote.
        fleet: the agents.
        agents: their addresses; those that are added join.
        done: the stages that are up to date.
        texts: what stages printed.
    """

    file: Path
    store: Store
    remote: str
    fleet: SocketFleet
    agents: dict[str, Address] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)

    @classmethod
    def of(cls, file: Path, folder: Path, remote: str, agents: Iterable[AgentProcess]) -> Driver:
        """Connect to agents."""
        addresses = {agent.url: Address.parse(agent.url) for agent in agents}
        return cls(file, Store.open(folder), remote, SocketFleet(GivenAddresses(addresses)), addresses)

    def add(self, agent: AgentProcess, place: str = "") -> None:
        """Connect to one more agent."""
        self.agents[place or agent.url] = Address.parse(agent.url)
        self.fleet.machines()

    def plan(self) -> Planner:
        """Load the pipeline and send its project."""
        forget()
        self.planner = Planner(load(self.file), self.store)
        tree = take_snapshot(self.planner.pipeline, self.store)
        share(tree, self.store, Settings(self.remote, "read-write"))
        self.snapshot: Snapshot = tree.snapshot
        return self.planner

    def use(self, name: str, text: str) -> None:
        """Go on with another pipeline of the project."""
        self.file = self.file.with_name(name)
        self.file.write_text(text, encoding="utf-8")
        self.plan()

    def order(self, name: str, **changes: object) -> Order:
        """Return the order of a stage whose inputs are there."""
        stage = self.planner.pipeline.stage(name)
        step = self.planner.decide(stage, self.done)
        upstream = {each: self.done[each].action for each in stage.upstream}
        fields = {
            "stage": name,
            "key": step.key,
            "snapshot": self.snapshot,
            "upstream": {each: action.key for each, action in upstream.items()},
            "trees": {each: action.tree for each, action in upstream.items()},
            "remote": self.remote,
            "components": step.components,
        }
        return Order(**{**fields, **changes})  # type: ignore[arg-type]  # the fields of an order by name

    def last(self, stage: str) -> FleetMessage:
        """Wait for the last message of a stage."""
        until = monotonic() + PATIENCE
        while monotonic() < until:
            for message in self._gather(until):
                if isinstance(message, LAST) and message.stage == stage:
                    return message
        raise TimeoutError(f"no last message of {stage}")

    def printed(self, stage: str, word: str) -> str:
        """Wait until a stage has printed a line with a word; return the line."""
        until = monotonic() + PATIENCE
        while word not in self.texts.get(stage, "") and monotonic() < until:
            assert not [message for message in self._gather(until) if isinstance(message, LAST)]
        return next(line for line in self.texts[stage].splitlines() if word in line)

    def _gather(self, until: float) -> list[FleetMessage]:
        messages = self.fleet.wait(until - monotonic())
        for message in messages:
            if isinstance(message, LogText):
                self.texts[message.stage] = self.texts.get(message.stage, "") + message.text
            elif isinstance(message, Progress):
                self.progress.append(message)
        return messages

    def build(self, name: str, machine: str) -> str:
        """Have a stage built and take its result in; return its tree."""
        self.fleet.start(self.order(name), machine)
        built = self.last(name)
        assert isinstance(built, Built), built
        step = self.take_in(name)
        assert step.cached_action
        assert from_json(built.record.encode().partition(b"\n")[2])["tree"] == step.cached_action.tree
        self.done[name] = Done(step, step.cached_action, ())
        return step.cached_action.tree

    def content(self, tree: str) -> bytes:
        """Return the content of the only file of a tree."""
        listed = self.store.read_tree(tree)
        assert listed
        (entry,) = listed.entries
        return self.store.read(entry.digest)

    def take_in(self, name: str) -> Step:
        """Fetch the result of a stage from the remote, as every run does."""
        sync = Sync(Settings(self.remote, "read"), self.planner, lambda _: None)
        stage = self.planner.pipeline.stage(name)
        step = self.planner.decide(stage, self.done)
        while not sync.downloads.fetch(step):
            sync.wait(1.0)
        sync.close()
        return self.planner.decide(stage, self.done)

    def records(self, key: str) -> list[Action]:
        """Return the results of a key in the remote."""
        folder = Path(self.remote.removeprefix("file://")) / "actions" / key[:2] / key
        lines = [path.read_bytes().partition(b"\n")[2] for path in sorted(folder.iterdir())]
        return [decode(Action, from_json(line)) for line in lines]

    def close(self) -> None:
        """Let go of the agents and the store."""
        self.fleet.close()
        self.store.close()


def ended(process: int) -> bool:
    """Wait until a process has ended; return whether it has."""
    until = monotonic() + PATIENCE
    while monotonic() < until:
        try:
            state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between open and read
            return True
        if state in (b"Z", b"X"):
            return True
        sleep(0.02)
    return False
