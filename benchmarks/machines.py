"""Cost of a stage on machines of a Ray cluster, against the same stage here.

    python -m benchmarks.machines                          200 trivial stages, 2 agents
    python -m benchmarks.machines --stages 1000 --agents 4

Needs root and the program `ip`: each machine is a network namespace of this computer, so all share its cores. The
pipeline runs once here and once on the agents, with an empty store and remote each time. CPU time covers the run's own
processes: here also those of the stages; on agents also the relay, but not the agents.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.spent import machine, table
from tests.cluster.cluster import Cluster, open_cluster
from tests.cluster.runs import agent, start_run
from tests.git import commit, git

CODE = """
from orun import Context, stage


@stage(inputs={}, output="files")
def make(context: Context, *, number: int) -> None:
    (context.output / "text").write_text(str(number))
"""


def write(folder: Path, count: int) -> Path:
    """Write a project of so many stages; return its pipeline file."""
    folder.mkdir()
    stages = [f"  s{number}: {{uses: ./code.py:make, with: {{number: {number}}}}}" for number in range(count)]
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    file = folder / "wide.yaml"
    file.write_text("\n".join(["stages:", *stages]) + "\n", encoding="utf-8")
    git(folder, "init", "-q")
    commit(folder, "first")
    return file


def spent(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Wait for a run; return its seconds by the clock and its CPU seconds."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    output, _ = process.communicate(timeout=1800)
    if process.returncode:
        raise RuntimeError(output)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_here(cluster: Cluster, file: Path) -> tuple[float, float]:
    """Run the pipeline on the machine of the head alone."""
    return spent(cluster.start("head", "-m", "orun", str(file), "--store", str(cluster.folder / "here"), "-q"))


def run_there(cluster: Cluster, file: Path, agents: Sequence[str]) -> tuple[float, float]:
    """Run the pipeline on the agents."""
    with contextlib.ExitStack() as stack:
        for name in agents:
            stack.enter_context(agent(cluster, name, "any"))
        return spent(start_run(cluster, file.parent, file.name, "-q"))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stages", type=int, default=200, help="how many")
    parser.add_argument("--agents", type=int, default=2, help="machines that join the head")
    options = parser.parse_args(arguments)
    names = [f"m{number}" for number in range(options.agents)]
    with tempfile.TemporaryDirectory(prefix="machines-") as folder, open_cluster(("head", *names)) as cluster:
        file = write(Path(folder, "project"), options.stages)
        rows = {"here": run_here(cluster, file), f"{options.agents} agents": run_there(cluster, file, names)}
    cells = [
        [name, f"{wall:.1f}", f"{1000 * wall / options.stages:.1f}", f"{1000 * cpu / options.stages:.1f}"]
        for name, (wall, cpu) in rows.items()
    ]
    sys.stdout.write(f"{machine()}\n\n{table(['where', 'wall, s', 'wall a stage, ms', 'CPU a stage, ms'], cells)}\n")


if __name__ == "__main__":
    main()
