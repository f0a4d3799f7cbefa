"""Cost of commands with all their processes: CPU seconds, which a busy machine affects least, and wall seconds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
ORUN = (sys.executable, "-m", "orun")
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Spent:
    """CPU seconds in user and system mode, and wall seconds."""

    cpu: float
    wall: float


def spend(command: Sequence[str], folder: Path = ROOT) -> Spent:
    """Run a command to its end.

    Args:
        command: a program with its arguments; it imports orun from this checkout.
        folder: its working folder.

    Raises:
        CalledProcessError: when it fails; its output goes to stderr.
    """
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=_environment(), stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace"))
            raise subprocess.CalledProcessError(process.returncode, command)
    return Spent(usage.ru_utime + usage.ru_stime, wall)


def _environment() -> dict[str, str]:
    """Return an environment for this checkout's orun, with byte code as an installed orun has."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT)}


def in_turn(tasks: Mapping[str, Callable[[], Spent]], rounds: int) -> dict[str, Spent]:
    """Do every task once in each round; return the medians over the rounds, by the task's name."""
    costs: dict[str, list[Spent]] = {name: [] for name in tasks}
    for number in range(rounds):
        for name, task in tasks.items():
            cost = task()
            costs[name].append(cost)
            print(f"{number + 1}/{rounds} {name}: {cost.cpu:.2f} CPU s, {cost.wall:.2f} s", file=sys.stderr)
    return {
        name: Spent(median(cost.cpu for cost in costs_of_task), median(cost.wall for cost in costs_of_task))
        for name, costs_of_task in costs.items()
    }


def machine() -> str:
    """Describe this machine and today, for the line above a table."""
    models = [line.partition(":")[2].strip() for line in _lines(CPUINFO) if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    load = os.getloadavg()[0]
    return f"{date.today()}, {os.cpu_count()} cores of {model}, Python {platform.python_version()}, load {load:.1f}"  # noqa: DTZ011 - the user's day


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(value: float, bar: float) -> str:
    """Say whether a figure is within its bar, for a table."""
    return f"{'within' if value <= bar else 'MISSES'} {bar:g}"
