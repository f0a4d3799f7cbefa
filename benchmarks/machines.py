"""Cost of stages on other machines, against the same stages here.

    python -m benchmarks.machines                                   what one more trivial stage costs, on 2 agents
    python -m benchmarks.machines overhead --stages 1000 --agents 4 --sockets
    python -m benchmarks.machines makespan                          36 stages that sleep, on 3 agents of 2 cores
    python -m benchmarks.machines memory --stages 10000             what one more stage adds to the driver's memory
    python -m benchmarks.machines snapshot --files 10000 --sockets  what the files of a project cost

Each machine of a Ray cluster is a network namespace of this computer, so that all share its cores; that needs root and
the program `ip`. With `--sockets` agents listen at sockets, without Ray.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import linear_regression

from benchmarks.spent import Spent, machine, table, verdict
from orun.environment import processes
from tests.agent.support import AgentProcess
from tests.cluster.cluster import open_cluster
from tests.cluster.runs import agent
from tests.git import commit, git

FEW = 20  # stages of the run whose cost is subtracted: what a run costs before its first stage
CPU_BAR, WALL_BAR = 15.0, 50.0  # ms a stage beyond a local run
MAKESPAN_BAR = 1.2  # times the least possible
MEMORY_BAR = 2.0  # kB a stage
WARM = 0.2  # of the stages, after which the growth of memory counts
LONGEST = 3600.0  # seconds of a run
CODE = """
import time

from orun import Context, stage


@stage(inputs={}, output="files")
def make(context: Context, *, number: int, seconds: float = 0.0) -> None:
    time.sleep(seconds)
    (context.output / "text").write_text(str(number))
"""


Start = Callable[..., subprocess.Popen[str]]  # starts `python -m orun WORDS` on the machine of runs


@dataclass(frozen=True)
class Fleet:
    """Agents, and folders for projects.

    Attributes:
        url: of the agents.
        start: starts orun on the machine of runs.
        folder: of the projects.
        agents: their processes.
    """

    url: str
    start: Start
    folder: Path
    agents: Sequence[subprocess.Popen[str]]

    def project(self, name: str, seconds: Sequence[float]) -> Path:
        """Write a project with a stage of each duration; return its pipeline file."""
        folder = self.folder / name / "project"
        folder.mkdir(parents=True)
        lines = [
            f"  s{number}: {{uses: ./code.py:make, with: {{number: {number}, seconds: {duration}}}}}"
            for number, duration in enumerate(seconds)
        ]
        (folder / "code.py").write_text(CODE, encoding="utf-8")
        file = folder / f"{name}.yaml"
        file.write_text("\n".join([f"name: {name}", "stages:", *lines]) + "\n", encoding="utf-8")
        git(folder, "init", "-q")
        commit(folder, "first")
        return file

    def start_here(self, file: Path) -> subprocess.Popen[str]:
        """Start a run of a pipeline on the machine of runs alone."""
        return self.start(str(file), "--store", str(file.parent.parent / "here"), "-q")

    def start_there(self, file: Path, *options: str) -> subprocess.Popen[str]:
        """Start a run of a pipeline on the agents."""
        top = file.parent.parent
        return self.start(
            str(file),
            "--on",
            self.url,
            "--remote",
            f"file://{top}/remote",
            "--store",
            str(top / "there"),
            "-q",
            *options,
        )

    def agents_cpu(self) -> float:
        """Return the CPU seconds of the agents and all their processes so far."""
        pids = [pid for process in self.agents for pid in (process.pid, *processes.iter_descendants(process.pid))]
        return sum(map(_cpu_of, pids))


@contextlib.contextmanager
def open_fleet(count: int, *, sockets: bool) -> Iterator[Fleet]:
    """Agents of a Ray cluster, or at sockets."""
    names = [f"m{number}" for number in range(count)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="machines-")))
        if sockets:
            started = (AgentProcess.start(name, folder / name, "--resources", "cpus=2") for name in names)
            alone = [stack.enter_context(each) for each in started]
            url, agents = ",".join(each.url for each in alone), [each.process for each in alone]
            start = partial(_start, folder)
        else:
            cluster = stack.enter_context(open_cluster(("head", *names)))
            agents = [stack.enter_context(agent(cluster, name, "any", "--resources", "cpus=2")) for name in names]
            url = f"ray://{cluster.head}"
            start = partial(cluster.start, "head", "-m", "orun", ORUN_LOCKS=str(cluster.folder / "head"))
        for process in agents:
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
        yield Fleet(url, start, folder, agents)


def _start(locks: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start orun on this machine; measurements of others here do not keep it waiting."""
    command = [sys.executable, "-m", "orun", *arguments]
    environment = {**os.environ, "ORUN_LOCKS": str(locks)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def _drain(process: subprocess.Popen[str]) -> None:
    """Read what an agent prints: it would wait once the pipe is full."""
    with contextlib.suppress(ValueError):  # closed
        for _ in process.stdout or ():
            pass


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of the children that it waited for."""
    with contextlib.suppress(OSError):  # it has ended
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def spend(process: subprocess.Popen[str]) -> Spent:
    """Wait for a run; return what its own processes cost."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    output, _ = process.communicate(timeout=LONGEST)
    if process.returncode:
        raise RuntimeError(output)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(cpu, time.perf_counter() - began)


def overhead(fleet: Fleet, stages: int) -> str:
    """Return the table of what one more trivial stage costs."""

    def cost(start: Callable[[Path], subprocess.Popen[str]], name: str) -> tuple[float, float, float]:
        began = fleet.agents_cpu()
        few = spend(start(fleet.project(f"few-{name}", [0.0] * FEW)))
        between = fleet.agents_cpu()
        many = spend(start(fleet.project(f"many-{name}", [0.0] * stages)))
        agents = fleet.agents_cpu() - between - (between - began)
        beyond = (many.wall - few.wall, many.cpu - few.cpu, agents)
        wall, cpu, of_agents = (1000 * seconds / (stages - FEW) for seconds in beyond)
        return wall, cpu, of_agents

    here = cost(fleet.start_here, "here")
    there = cost(fleet.start_there, "there")
    beyond = [there[0] - here[0], there[1] + there[2] - here[1]]
    rows = [
        ["here", f"{here[0]:.1f}", f"{here[1]:.1f}", "", ""],
        [f"{len(fleet.agents)} agents", f"{there[0]:.1f}", f"{there[1]:.1f}", f"{there[2]:.1f}", ""],
        ["beyond here", f"{beyond[0]:.1f}", f"{beyond[1]:.1f}", "",
         f"wall {verdict(beyond[0], WALL_BAR)}, CPU {verdict(beyond[1], CPU_BAR)}"],
    ]  # fmt: skip
    titles = [f"one more of {stages} stages", "wall, ms", "CPU of the run, ms", "CPU of the agents, ms", "bar"]
    return table(titles, rows)


def makespan(fleet: Fleet, stages: int) -> str:
    """Return the table of how long stages that sleep take, the first time and with known durations.

    The least possible is that of the stages' own times in the same run, so that other load affects both sides.
    """
    random = Random(23)
    file = fleet.project("wide", [round(random.uniform(1.0, 6.0), 1) for _ in range(stages)])
    rows = []
    for name, options in (("durations unknown", []), ("durations known", ["--force"])):
        run = spend(fleet.start_there(file, *options)).wall
        span, seconds = _last_run(file.parent.parent / "there")
        least = max(sum(seconds) / (2 * len(fleet.agents)), *seconds)
        figures = [f"{figure:.1f}" for figure in (least, span, run)]
        rows.append([name, *figures, f"{span / least:.2f}", verdict(span / least, MAKESPAN_BAR)])
    return table(["run", "least possible, s", "first start to last end, s", "whole run, s", "ratio", "bar"], rows)


def _last_run(store: Path) -> tuple[float, list[float]]:
    """Return the seconds from the first start to the last end of a stage in the last run, and those of each stage."""
    log = max((store / "runs").iterdir()) / "events.jsonl"
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    started = [event["time"] for event in events if event["event"] == "stage_started"]
    ended = [event for event in events if event["event"] == "stage_finished"]
    span = max(event["time"] for event in ended) - min(started)
    return span, [event["result"]["seconds"] for event in ended]


def memory(fleet: Fleet, stages: int) -> str:
    """Return the table of how the driver's memory grows with each stage that ends."""
    file = fleet.project("long", [0.0] * stages)
    run = fleet.start_there(file)
    runs, status = file.parent.parent / "there" / "runs", Path(f"/proc/{run.pid}/statm")
    began, samples = time.perf_counter(), []
    while run.poll() is None:
        time.sleep(1.0)
        with contextlib.suppress(OSError, ValueError):  # it has not begun, or has ended
            log = max(runs.iterdir()) / "events.jsonl"
            ended = log.read_bytes().count(b'"event":"stage_finished"')
            samples.append((ended, int(status.read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1024))
    wall = time.perf_counter() - began
    if run.returncode:
        raise RuntimeError(run.communicate()[0])
    first = next(size for ended, size in samples if ended)
    counted = [(ended, size) for ended, size in samples if ended >= WARM * stages]
    growth = linear_regression(*zip(*counted, strict=True)).slope
    cells = [f"{first / 1024:.0f}", f"{max(size for _, size in samples) / 1024:.0f}", f"{growth:.2f}", f"{wall:.0f}"]
    titles = ["stages", "MB at the first end", "MB at most", "kB a stage", "wall, s", "bar"]
    return table(titles, [[str(stages), *cells, verdict(growth, MEMORY_BAR)]])


def snapshot(fleet: Fleet, files: int) -> str:
    """Return the table of what a run with one trivial stage costs, by the files of its project."""
    rows = []
    for count in (FEW, files):
        file = fleet.project(f"files-{count}", [0.0])
        names = [file.parent / "data" / str(number // 100) / f"{number}.txt" for number in range(count)]
        for number, path in enumerate(names):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number:8}\n" * 100, encoding="utf-8")
        commit(file.parent, "data")
        costs = [spend(fleet.start_there(file))]
        names[0].write_text("another text\n", encoding="utf-8")
        costs += [spend(fleet.start_there(file, *options)) for options in (["--force"], ["--force"], [])]
        rows.append([f"{count:,}", *(f"{cost.wall:.2f} ({cost.cpu:.2f})" for cost in costs)])
    titles = ["files of 900 bytes", "first run, s", "one file changed, s", "forced again, s", "nothing to do, s"]
    return table(titles, rows)


PARTS: Mapping[str, tuple[Callable[[Fleet, int], str], int, int]] = {  # with stages or files, and agents
    "overhead": (overhead, 220, 2),
    "makespan": (makespan, 36, 3),
    "memory": (memory, 10_000, 4),
    "snapshot": (snapshot, 10_000, 2),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=PARTS, default="overhead", help="what to measure")
    parser.add_argument("--stages", "--files", type=int, dest="count", help="how many")
    parser.add_argument("--agents", type=int, help="machines that join the head")
    parser.add_argument("--sockets", action="store_true", help="agents without Ray")
    options = parser.parse_args(arguments)
    measure, count, agents = PARTS[options.part]
    with open_fleet(options.agents or agents, sockets=options.sockets) as fleet:
        sys.stdout.write(f"{machine()}\n\n{measure(fleet, options.count or count)}\n")


if __name__ == "__main__":
    main()
