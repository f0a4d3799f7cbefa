"""A cluster of namespaces: a head, and machines that may join it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from orun.cluster.settings import build_environment
from tests.cluster.network import Network

PORT = 6379


@dataclass
class Cluster:
    """Head and machines of a session.

    Attributes:
        folder: folder of each machine's home, by its name.
        network: their network.
        processes: what was started on them, ended by id when the session ends.
    """

    folder: Path
    network: Network
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def head(self) -> str:
        """Address of the head."""
        return f"{self.network.address('head')}:{PORT}"

    def environment(self, machine: str) -> Mapping[str, str]:
        """Environment of processes on a machine: a home of its own, the token of all."""
        home = self.folder / machine
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "RAY_AUTH_TOKEN": "0" * 64, "PYTHONPATH": str(Path(__file__).parents[2])}
        return {**build_environment(), **own, "TERM": "xterm"}  # where Ray colours even what goes to a file

    def start(self, machine: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `python WORDS` on a machine, in a process group of its own."""
        files = self.folder / machine / "ray"
        files.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            self.network.command(machine, files, sys.executable, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**self.environment(machine), **environment},
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def end(self, process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> None:
        """End a process, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        process.wait(60)
        for stream in filter(None, (process.stdin, process.stdout)):
            stream.close()

    def close(self) -> None:
        """End everything, the head last."""
        for process in reversed(self.processes):
            self.end(process)


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """Return the first line of a process's output that holds a text; fail with the output if it ends before."""
    assert process.stdout
    lines = []
    for line in process.stdout:
        if text in line:
            return line
        lines.append(line)
    raise AssertionError(f"{text!r} was not printed:\n{''.join(lines)}")


@contextlib.contextmanager
def open_cluster(machines: Sequence[str]) -> Iterator[Cluster]:
    """A cluster with a head and no agents.

    Args:
        machines: names of the machines; the head's is `head`.
    """
    network = Network(machines)
    with contextlib.ExitStack() as stack:
        stack.callback(network.close)
        cluster = Cluster(Path(stack.enter_context(TemporaryDirectory(prefix="orun-"))), network)
        stack.callback(cluster.close)
        head = cluster.start("head", "-m", "orun", "head", "--host", network.address("head"), "--port", str(PORT))
        wait_for_line(head, "the head listens on")
        yield cluster
