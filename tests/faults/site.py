"""Machines that faults are tried on: a driver and two agents in network namespaces, each with its own store and user.

A project runs on them under a new mark each time, so that every stage runs. What it must make follows from the mark.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from orun.cluster.settings import build_environment
from tests.cluster.network import Network, why_no_network
from tests.faults.deaths import MARK, processes
from tests.faults.folders import fingerprint
from tests.faults.rig import CHECKOUT, Ended, environment
from tests.git import commit, git

AGENTS = ("a", "b")
PORT = 7777
START_PATIENCE = 120.0  # seconds for an agent or a head to start on a busy machine
RUN_PATIENCE = 90.0  # seconds from a fault to the end of a run: a lease, then the work of the lost machine
END_PATIENCE = 20.0  # seconds from the end of a run to the end of its stages on all machines
TOOL = "faketool"  # a distribution in the key of a stage
STAGES = f'''
"""Stages over text: two parts, joined again, then two more. Each takes half a second."""

import subprocess

from orun import stage


def work():
    subprocess.run(["sleep", "0.5"], check=True)  # in a process of its own, which must end with the stage


@stage(inputs={{}}, output="files")
def source(context, *, mark: str):
    work()
    (context.output / "text").write_text(" ".join(f"{{mark}}-{{number}}" for number in range(1000)))


@stage(inputs={{"text": "files"}}, output="files")
def part(context, *, number: int):
    work()
    words = (context.inputs["text"] / "text").read_text().split()
    (context.output / "text").write_text(" ".join(words[number::2]))


@stage(inputs={{"text": "files"}}, output="files", tools=["{TOOL}"])
def tooled(context):
    work()
    (context.output / "text").write_text((context.inputs["text"] / "text").read_text().upper())


@stage(inputs={{"left": "files", "right": "files"}}, output="files")
def join(context):
    work()
    texts = [(context.inputs[port] / "text").read_text() for port in ("left", "right")]
    (context.output / "text").write_text("\\n".join(texts))


@stage(inputs={{"text": "files"}}, output="files", stage_class="measurement")
def measure(context):
    work()
    (context.output / "text").write_text(str(len((context.inputs["text"] / "text").read_text())))
'''
PIPELINE = """
name: text
vars: {mark: a}
stages:
  source: {uses: ./stages.py:source, with: {mark: "${vars.mark}"}}
  left: {uses: ./stages.py:part, needs: source, with: {number: 0}}
  right: {uses: ./stages.py:part, needs: source, with: {number: 1}}
  tooled: {uses: ./stages.py:tooled, needs: source}
  join: {uses: ./stages.py:join, needs: {left: left, right: right}}
  measure: {uses: ./stages.py:measure, needs: join}
"""
MEASUREMENT = "measure"  # a stage whose result belongs to one machine
LAST = "tooled"  # a stage that no other builds on, whose files come to the driver
AGENT = """
import sys
import time

ahead, now = float(sys.argv.pop(1)), time.time
if ahead:
    time.time = lambda: now() + ahead
from orun.cli.main import main

sys.exit(main(sys.argv[1:]))
"""


def expected(mark: str) -> dict[str, str]:
    """Return the text of each stage's result."""
    lines = [f"{mark}-{number}" for number in range(1000)]
    left, right = " ".join(lines[0::2]), " ".join(lines[1::2])
    joined = f"{left}\n{right}"
    return {
        "source": " ".join(lines),
        "left": left,
        "right": right,
        "tooled": " ".join(lines).upper(),
        "join": joined,
        MEASUREMENT: str(len(joined)),
    }


@dataclass
class Run:
    """Run of the pipeline, or its command line at least.

    Attributes:
        site: where it runs.
        mark: what its results are made of.
        process: the driver.
        before: the folders of earlier runs.
    """

    site: Site
    mark: str
    process: subprocess.Popen[str]
    before: frozenset[Path]

    def events(self) -> list[dict[str, object]]:
        """Return the events so far."""
        files = [path / "events.jsonl" for path in self.site.runs() - self.before]
        lines = [line for path in files for line in path.read_bytes().splitlines()]
        return [json.loads(line) for line in lines if line.endswith(b"}")]

    def wait_for(self, count: int) -> None:
        """Wait until so many events have happened, or the run has ended."""
        while len(self.events()) < count and self.process.poll() is None:
            time.sleep(0.01)

    def machine(self) -> str:
        """Return the machine that a stage was last started on; the first if none was."""
        started = [str(event["machine"]) for event in self.events() if event.get("machine")]
        return started[-1] if started else AGENTS[0]

    def end(self, patience: float = RUN_PATIENCE) -> Ended:
        """Wait for the end; after too long a time the run is killed."""
        try:
            out, err = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            err += f"\nTraceback: the run did not end within {patience:.0f} s"
        return Ended(self.process.returncode, out, err)

    def built(self) -> set[str]:
        """Return the stages that were said to be built."""
        results = [event["result"] for event in self.events() if event["event"] == "stage_finished"]
        return {result["stage"] for result in results if result["outcome"] == "built"}  # type: ignore[index]  # JSON


@dataclass
class Site:
    """A driver's machine, `head`, and two machines with agents, `a` and `b`.

    Attributes:
        folder: of all of them; what is shared is the remote alone.
        network: their links.
        is_ray: whether they meet through Ray; otherwise the driver has the agents' addresses.
        agents: processes of the agents by machine.
        head: process of Ray's head.
        keys: signing key by machine.
        damaged: objects of the remote that were damaged on purpose, and that nobody may have read since.
    """

    folder: Path
    network: Network
    is_ray: bool = False
    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    head: subprocess.Popen[str] | None = None
    keys: dict[str, str] = field(default_factory=dict)
    damaged: set[Path] = field(default_factory=set)
    token: str = field(default_factory=lambda: secrets.token_hex(32))

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, is_ray: bool = False) -> Iterator[Self]:
        """A site, whose agents are started by `prepare`."""
        if why := why_no_network():
            raise OSError(why)
        network = Network(("head", *AGENTS))
        site = cls(folder, network, is_ray)
        try:
            site._make()
            yield site
        finally:
            site.close()
            network.close()

    def _make(self) -> None:
        for machine in ("head", *AGENTS):
            for name in ("home", "site", "ray"):
                (self.folder / machine / name).mkdir(parents=True)
            self.set_tool(machine, "1.0")
        (self.folder / "site").mkdir()
        (self.folder / "token").write_text(self.token)
        (self.folder / "token").chmod(0o600)
        self.project.mkdir()
        (self.project / "stages.py").write_text(STAGES)
        (self.project / "pipeline.yaml").write_text(PIPELINE)
        git(self.project, "init", "-q")
        commit(self.project, "first")

    @property
    def project(self) -> Path:
        """The driver's project."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """The driver's store."""
        return self.folder / "head" / "store"

    @property
    def remote(self) -> Path:
        """What the machines share."""
        return self.folder / "remote"

    @property
    def url(self) -> str:
        """What the driver names by `--on`."""
        if self.is_ray:
            return f"ray://{self.network.address('head')}:6379"
        return ",".join(f"tcp://{self.network.address(name)}:{PORT}" for name in AGENTS)

    def set_tool(self, machine: str, version: str) -> None:
        """Install another version of the tool on a machine."""
        packages = self.folder / machine / "site"
        for folder in packages.glob(f"{TOOL}-*.dist-info"):
            shutil.rmtree(folder)
        new = packages / f"{TOOL}-{version}.dist-info"
        new.mkdir()
        (new / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {TOOL}\nVersion: {version}\n")

    def environment(self, machine: str, checkout: Path = CHECKOUT) -> Mapping[str, str]:
        """Return the environment of processes on a machine."""
        own = {
            "HOME": str(self.folder / machine / "home"),
            "ORUN_LOCKS": str(self.folder / machine),
            "ORUN_REMOTE_KEY": self.keys.get(machine, "a key that all machines share"),
            "ORUN_AGENT_TOKEN": self.token,
            "RAY_AUTH_TOKEN": self.token,
            "PYTHONPATH": f"{self.folder / 'site'}{os.pathsep}{checkout}",
            MARK: f"{self.token}-{machine}",
        }
        return {**environment(), **(build_environment() if self.is_ray else {}), **own}

    def start(
        self, machine: str, *arguments: str, output: IO[str] | int, checkout: Path = CHECKOUT
    ) -> subprocess.Popen[str]:
        """Start a program on a machine, whose folder `site` is the one of that name there."""
        mount = ["sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"']
        folders = [str(self.folder / machine / "site"), str(self.folder / "site")]
        return subprocess.Popen(
            self.network.command(machine, self.folder / machine / "ray", *mount, *folders, *arguments),
            cwd=self.folder / machine,
            env=self.environment(machine, checkout),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE if output == subprocess.PIPE else subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def start_agent(self, machine: str, *options: str, ahead: float = 0.0, checkout: Path = CHECKOUT) -> None:
        """Start the agent of a machine and wait until it can be used.

        Args:
            machine: its name.
            options: further options.
            ahead: seconds that its clock is ahead.
            checkout: of the `orun` that it runs.
        """
        log = self.folder / machine / "log"
        place = ("--join", self.url.removeprefix("ray://")) if self.is_ray else ("--listen", self._address(machine))
        token = ("--token-file", str(self.folder / "token"))
        arguments = ("agent", *place, "--name", machine, "--resources", "cpus=2", *token)
        store = ("--store", str(self.folder / machine / "store"))
        with log.open("w") as output:
            program = (sys.executable, "-P", "-c", AGENT, str(ahead), *arguments, *store, *options)
            process = self.agents[machine] = self.start(machine, *program, output=output, checkout=checkout)
        self._await(process, log, f"machine {machine} ")

    def _address(self, machine: str) -> str:
        return f"tcp://{self.network.address(machine)}:{PORT}"

    @staticmethod
    def _await(process: subprocess.Popen[str], log: Path, text: str) -> None:
        until = time.monotonic() + START_PATIENCE
        while text not in log.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"it did not start: {log.read_text()}")
            time.sleep(0.05)

    def prepare(self) -> None:
        """Start what does not run: the head and the agents."""
        if self.is_ray and (self.head is None or self.head.poll() is not None):
            log = self.folder / "head" / "log"
            with log.open("w") as output:
                command = (sys.executable, "-P", "-m", "orun", "head", "--host", self.network.address("head"))
                self.head = self.start("head", *command, output=output)
            self._await(self.head, log, "the head listens on")
        for machine in AGENTS:
            if machine not in self.agents or self.agents[machine].poll() is not None:
                self.start_agent(machine)

    def run(self, mark: str) -> Run:
        """Start a run with two agents."""
        arguments = ("pipeline.yaml", "--json", "--on", self.url, "--remote", f"file://{self.remote}", "--wait", "30s")
        options = ("--set", f"vars.mark={mark}", "--store", str(self.store))
        before = frozenset(self.runs())
        program = (sys.executable, "-P", "-m", "orun", *arguments, *options)
        inner = ("sh", "-c", 'cd "$0" && exec "$@"', str(self.project), *program)
        return Run(self, mark, self.start("head", *inner, output=subprocess.PIPE), before)

    def runs(self) -> set[Path]:
        """Return the folders of all runs that have begun."""
        return {path.parent for path in self.store.glob("runs/*/events.jsonl")}

    def damage(self, mark: str, ended: Ended) -> str:
        """Return which result of a run that has ended well is wrong; empty if none is."""
        trees = {stage["stage"]: stage["tree"] for stage in ended.document["stages"]}
        for stage, text in expected(mark).items():
            if self._text(trees[stage]) != text:
                return f"a wrong result of {stage}"
        out = self.store / "out" / "text" / LAST / "text"
        return "" if out.read_text() == expected(mark)[LAST] else f"a wrong {out}"

    def _text(self, tree: str) -> str:
        """Return the text in an artifact, from whichever store or the remote has it undamaged."""
        files = json.loads(self._object(tree))["files"]
        return self._object(next(file["digest"] for file in files if file["path"] == "text")).decode()

    def _object(self, digest: str) -> bytes:
        for folder in (self.store, self.remote, *(self.folder / name / "store" for name in AGENTS)):
            path = folder / "objects" / digest[:2] / digest[2:]
            if path.is_file() and is_intact(path):
                return path.read_bytes()
        raise FileNotFoundError(digest)

    def broken_objects(self) -> list[str]:
        """Return the objects in stores and the remote whose content is another one than their names say."""
        folders = (self.store, *(self.folder / name / "store" for name in AGENTS), self.remote)
        paths = [path for folder in folders for path in folder.glob("objects/??/*")]
        return [
            str(path.relative_to(self.folder)) for path in paths if path not in self.damaged and not is_intact(path)
        ]

    def working(self) -> list[str]:
        """Return the processes of stages on all machines."""
        tokens = [f"{self.token}-{name}" for name in ("head", *AGENTS)]
        each = [process for token in tokens for process in processes(token)]
        stages = [process.name for process in each if process.is_stage]
        return stages + [process.name for process in each if process.name.startswith("sleep")]

    def orphans(self) -> list[str]:
        """Return the processes of stages that still run some time after the end of a run."""
        return _left(self.working, END_PATIENCE)

    def end_agent(self, machine: str) -> list[str]:
        """End an agent with all that its machine runs for it; return the processes that do not end."""
        process = self.agents.pop(machine)
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGTERM):
            with suppress(ProcessLookupError):
                process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_PATIENCE)
        process.kill()
        process.wait()
        return self.survivors(machine)

    def survivors(self, machine: str) -> list[str]:
        """Return the processes of a machine without an agent that do not end."""
        return _left(lambda: [process.name for process in processes(f"{self.token}-{machine}")], END_PATIENCE)

    def close(self) -> None:
        """End everything."""
        for machine in list(self.agents):
            self.end_agent(machine)
        if self.head:
            self.head.terminate()
            self.head.wait()


def is_intact(path: Path) -> bool:
    """Return whether the content of an object is what its name says."""
    return fingerprint(path).partition(" ")[0] == path.parent.name + path.name


def _left(remaining: Callable[[], list[str]], patience: float) -> list[str]:
    """Return what remains after a while."""
    until = time.monotonic() + patience
    while (names := remaining()) and time.monotonic() < until:
        time.sleep(0.1)
    return names
