"""Campaign of random faults (damage, deaths, races, limits, failing calls and remotes), with the outcome of each.

    python -m benchmarks.faults --n 1000 --seed 7           hours
    python -m benchmarks.faults --n 50 --only deaths
    python -m benchmarks.faults --n 50 --only calls --tell  print each fault and its outcome
    python -m benchmarks.faults --n 200 --only machines     two agents in network namespaces, an hour

Each fault follows from the seed and its number, which are printed with every wrong outcome. Root ignores file modes, so
start it as root with `setpriv --bounding-set=-dac_override,-dac_read_search`. A small disk is mounted if that is
allowed. The families `machines` and `ray` are tried only if they are asked for: they need root and the program `ip`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import get_args

from tests.faults import (
    combined_faults,
    commands,
    concurrent_runs,
    deaths,
    failures,
    integrity,
    limits,
    machines,
    neighbours,
    races,
    weather,
)
from tests.faults.calls import Counts, Failing, Fault, compile_library
from tests.faults.folders import remove
from tests.faults.projects import MODEL, TEXT, Subject
from tests.faults.rig import BAD, Judgement, Outcome, Rig, inside, process
from tests.faults.site import Site
from tests.remote import s3

DISK = "4m"  # holds the text project and little more
TELL = 10  # faults between two lines of progress
MODELS = 0.2  # probability of the project with real stages


@dataclass
class Bench:
    """State of a campaign.

    Attributes:
        folder: an empty folder.
        disk: a small disk, or the folder if none can be mounted.
        rigs: projects by name, made on first use.
        failing: the library that lets calls fail, made on first use.
        counts: number of calls of each command, counted on first use.
        weather: the failing remote, started on first use.
        requests: number of requests of a run, by direction.
        sites: machines with agents, by whether they meet through Ray.
        stack: closed at the end of the campaign.
    """

    folder: Path
    disk: Path
    rigs: dict[str, Rig] = field(default_factory=dict)
    failing: list[Failing] = field(default_factory=list)
    counts: dict[str, Counts] = field(default_factory=dict)
    weather: list[weather.Weather] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    sites: dict[bool, Site] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def rig(self, name: str, subject: Subject, folder: Path | None = None) -> Rig:
        """Return the project of that name, made on first use."""
        if name not in self.rigs:
            self.rigs[name] = Rig.make((folder or self.folder) / name, subject, process)
        return self.rigs[name]

    def site(self, *, is_ray: bool) -> Site:
        """Return the machines, made on first use."""
        if is_ray not in self.sites:
            folder = self.folder / ("ray" if is_ray else "machines")
            self.sites[is_ray] = self.stack.enter_context(Site.open(folder, is_ray=is_ray))
        return self.sites[is_ray]

    def some(self, family: str, chance: Random) -> Rig:
        """Return one of the two projects."""
        subject = MODEL if chance.random() < MODELS else TEXT
        return self.rig(f"{family}-{subject.pipeline}", subject)


Trial = Callable[[Bench, Random], tuple[str, str, Judgement]]
"""Trial of a fault: returns its row in the table, its description, and the judgement."""


def try_damage(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Damage a file of the store."""
    fault, judgement = integrity.trial(bench.some("damage", chance), chance)
    return fault.target, str(fault), judgement


def try_several(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Combine several faults."""
    description, judgement = combined_faults.trial(bench.some("several", chance), chance)
    return f"{description.count(';')} faults", description, judgement


def try_death(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Kill a process."""
    death, judgement = deaths.trial(bench.some("deaths", chance), chance)
    return death.victim, str(death), judgement


def try_race(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Edit a file while a stage runs."""
    possible = [
        (name, moment) for name in races.EDITS for moment in races.MOMENTS if (name, moment) not in races.UNSEEN
    ]
    name, moment = chance.choice(possible)
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        return name, f"{name}, {moment}", races.trial(Path(folder), name, moment)


def try_concurrent_runs(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Run several processes on one cold store."""
    count, variants = chance.choice((2, 4, 8)), chance.choice((1, 2))
    judgement = concurrent_runs.trial(bench.some("concurrent", chance), count, variants)
    return f"{count} processes", f"{count} processes, {variants} pipelines", judgement


def try_limit(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Reach a limit of the machine."""
    name = chance.choice([name for name in limits.LIMITS if name != "full" or bench.disk != bench.folder])
    description, judgement = limits.trial(bench.rig("limits", TEXT, bench.disk), chance, name)
    return name, description, judgement


def try_call(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Let a system call fail."""
    return _try_call(bench, chance, failures.trial, tuple(commands.COMMANDS))


def try_neighbour(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Let a system call fail while another process uses the store."""
    return _try_call(bench, chance, neighbours.trial, neighbours.NAMES)


def _try_call(
    bench: Bench,
    chance: Random,
    trial: Callable[[Rig, Failing, str, Fault], tuple[str, Judgement]],
    names: tuple[str, ...],
) -> tuple[str, str, Judgement]:
    if "calls" not in bench.rigs:
        rig = bench.rigs["calls"] = Rig.make(bench.folder / "calls", TEXT, inside)
        commands.watch_temporary(rig)
        bench.failing.append(Failing.make(compile_library(bench.folder), bench.folder, rig.folder))
    rig, name, (failing,) = bench.rigs["calls"], chance.choice(names), bench.failing
    if name not in bench.counts:
        bench.counts[name] = commands.count(rig, failing, name)
    fault, description, judgement = failures.some_trial(
        partial(trial, rig, failing, name), failing, bench.counts[name], chance
    )
    return fault.kind, description, judgement


def try_remote(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Let a remote fail."""
    if not bench.weather:
        bench.weather.append(bench.stack.enter_context(weather.serving()))
        rig = bench.rig("remote", TEXT)
        commands.watch_temporary(rig)
        rig.variables |= s3.variables(bench.weather[0].url)
        for direction in weather.DIRECTIONS:
            bench.requests[direction] = weather.requests(rig, bench.weather[0], direction)
    return weather.some_trial(bench.rig("remote", TEXT), bench.weather[0], bench.requests, chance)


def try_machines(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Let something fail on one of several machines."""
    return machines.trial(bench.site(is_ray=False), chance)


def try_ray(bench: Bench, chance: Random) -> tuple[str, str, Judgement]:
    """Let something fail on one of several machines that meet through Ray."""
    return machines.trial(bench.site(is_ray=True), chance)


# Share of each family in percent, and its trial.
FAMILIES: Mapping[str, tuple[int, Trial]] = {
    "damage": (34, try_damage),
    "several": (6, try_several),
    "deaths": (20, try_death),
    "races": (8, try_race),
    "concurrent": (2, try_concurrent_runs),
    "limits": (10, try_limit),
    "calls": (12, try_call),
    "neighbours": (4, try_neighbour),
    "remote": (4, try_remote),
    "machines": (0, try_machines),
    "ray": (0, try_ray),
}


def campaign(
    bench: Bench, numbers: range, seed: str, only: str | None, *, tell: bool, seconds: float = float("inf")
) -> Counter[tuple[str, Outcome]]:
    """Try the faults with these numbers while there is time; count the outcomes, with `tell` print all of them."""
    table: Counter[tuple[str, Outcome]] = Counter()
    until = time.monotonic() + seconds
    for number in numbers:
        if time.monotonic() > until:
            break
        chance = Random(f"{seed}-{number}")
        family = only or chance.choices(list(FAMILIES), [share for share, _ in FAMILIES.values()])[0]
        row, description, judgement = FAMILIES[family][1](bench, chance)
        table[f"{family}: {row}", judgement.outcome] += 1
        if judgement.outcome in BAD:
            print(f"{judgement.outcome.upper()} {seed}-{number} {family}: {description}\n  {judgement.why}", flush=True)
        elif tell:
            print(f"{judgement.outcome} {seed}-{number} {family}: {description}\n  {judgement.why}", flush=True)
        if table.total() % TELL == 0:
            print(f"{table.total()} of {len(numbers)}: {_totals(table)}", file=sys.stderr, flush=True)
    return table


def _totals(table: Counter[tuple[str, Outcome]]) -> str:
    """Return the number of each outcome, as text."""
    totals: Counter[Outcome] = Counter()
    for (_, outcome), count in table.items():
        totals[outcome] += count
    return ", ".join(f"{totals[outcome]} {outcome}" for outcome in get_args(Outcome))


def show(table: Counter[tuple[str, Outcome]], seconds: float) -> None:
    """Print the table."""
    outcomes = get_args(Outcome)
    rows = sorted({row for row, _ in table})
    print(f"{'':<32}", *(f"{outcome:>9}" for outcome in outcomes))
    for row in rows:
        print(f"{row:<32}", *(f"{table[row, outcome] or '':>9}" for outcome in outcomes))
    totals = [sum(table[row, outcome] for row in rows) for outcome in outcomes]
    print(f"{f'{sum(totals)} faults in {seconds:.0f} s':<32}", *(f"{total:>9}" for total in totals))


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small disk; yield the folder itself if that is not allowed."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield folder
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def main() -> int:
    """Run the campaign; return 1 if an outcome was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="number of faults")
    parser.add_argument("--seed", default=str(time.time_ns()), help="seed of all choices")
    parser.add_argument("--first", type=int, default=0, help="number of the first fault")
    parser.add_argument("--only", choices=FAMILIES, help="only faults of this family")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no fault after so long")
    parser.add_argument("--tell", action="store_true", help="print every fault, not only wrong ones")
    choices = parser.parse_args()
    print(f"seed {choices.seed}", flush=True)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="orun-faults-"))
    os.environ["ORUN_LOCKS"] = str(folder)
    try:
        with small_disk(folder) as disk, ExitStack() as stack:
            numbers = range(choices.first, choices.first + choices.n)
            bench = Bench(folder, disk, stack=stack)
            table = campaign(bench, numbers, choices.seed, choices.only, tell=choices.tell, seconds=choices.seconds)
    finally:
        remove(folder)
    show(table, time.monotonic() - began)
    return int(any(outcome in BAD for _, outcome in table))


if __name__ == "__main__":
    sys.exit(main())
