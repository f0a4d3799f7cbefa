"""orun machines: who is in a fleet, with labels, resources, load and versions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from orun.cli import options
from orun.cli.verb import Verb
from orun.core.machines import Machine
from orun.core.serialization import encode
from orun.errors import UsageError
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.text.units import show

EXAMPLES = (
    ("orun machines --on ray://head:6379", "labels, resources, load, versions"),
    ("orun machines --on ray://head:6379 --json", "the same for a program"),
)
LIBRARIES = ("onnxruntime", "torch")
TABLE = (
    Column("machine"),
    Column("labels", flexible=True),
    *(Column(title, "right") for title in ("cores", "memory", "GPUs", "load")),
    *map(Column, ("orun", "Python", *LIBRARIES)),
)
CHECKS = (Column("machine"), Column("state", flexible=True))
CLOCK_TOLERANCE = 60.0  # seconds between two clocks: records of runs are in the order of their times
LEAST_FREE = 1 << 30  # bytes on the disk of an agent's store
DIGITS = 8  # of a digest that are shown


@click.command("machines", cls=Verb, examples=EXAMPLES)
@options.fleet_option
@options.json_option
def command(executor: str | None, as_json: bool) -> int:
    """List the machines on which a run could run stages.

    `load` is the load average of the last minute, and `orun` the digest of orun's code there. Machines with another
    digest than this one are not used.
    """
    from orun.fs.observed_state import find_project
    from orun.remote.settings import read_fleet_url

    url = read_fleet_url(executor, find_project(Path.cwd()))
    if not url:
        raise UsageError("no fleet is named", hint="--on ray://head:6379, or ORUN_ON")
    machines, left_out = find_machines(url)
    options.warn(left_out)
    if as_json:
        options.show_json([encode(machine) for machine in machines])
    else:
        options.show(format_machines(machines, detect(sys.stdout)))
    return 0


def find_machines(url: str) -> tuple[tuple[Machine, ...], list[str]]:
    """Return the machines of a fleet, and why others that were found cannot be used."""
    from orun.core.events import Notice
    from orun.runner.open_fleet import format_agent_command, open_fleet

    fleet = open_fleet(url)
    try:
        machines = fleet.machines()
        left_out = [message.text for message in fleet.wait(0.0) if isinstance(message, Notice)]
    finally:
        fleet.close()
    if not machines:
        click.echo(f"no machine is here; start an agent on one: {format_agent_command(url)}", err=True)
    return machines, left_out


def format_machines(machines: Sequence[Machine], terminal: Terminal) -> list[str]:
    """Return the machines as a table."""
    return render(TABLE, [_build_row(machine) for machine in machines], terminal)


def _build_row(machine: Machine) -> tuple[Cell, ...]:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(machine.labels.items()))
    return (
        Cell(machine.id, "strong"),
        Cell(labels),
        Cell(str(machine.cores)),
        Cell(show(machine.memory, "B") if machine.memory else ""),
        Cell(str(machine.gpus)),
        Cell(f"{machine.load:.1f}"),
        Cell(machine.orun[:DIGITS]),
        Cell(machine.python),
        *(Cell(_find_version(machine, library)) for library in LIBRARIES),
    )


def _find_version(machine: Machine, library: str) -> str:
    """Return the version of a library on a machine, in whichever build."""
    return next((version for name, version in machine.versions.items() if name.partition("-")[0] == library), "")


def format_problems(problems: Mapping[str, Sequence[str]], terminal: Terminal) -> list[str]:
    """Return what is wrong with each machine, as a table."""
    rows = [
        (Cell(name, "strong"), Cell("; ".join(texts), "doubt") if texts else Cell("OK", "good"))
        for name, texts in problems.items()
    ]
    return render(CHECKS, rows, terminal)


def list_problems(machine: Machine, now: float) -> list[str]:
    """Return what is wrong with a machine, with what to do.

    `now` is the time here, in seconds since 1970.
    """
    problems = []
    if abs(machine.clock - now) > CLOCK_TOLERANCE:
        difference = show(abs(machine.clock - now), "s")
        problems.append(
            f"its clock is {difference} {'ahead' if machine.clock > now else 'behind'}: set it, as by timedatectl"
        )
    if machine.free is not None and machine.free < LEAST_FREE:
        problems.append(f"{show(machine.free, 'B')} free for its store: orun store gc, there")
    if not any(_find_version(machine, library) for library in LIBRARIES):
        problems.append("neither ONNX Runtime nor PyTorch is installed there")
    return problems
