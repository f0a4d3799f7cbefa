"""Planning for several machines: open the fleet, share the project, ask for facts, wait for missing machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

from orun.agent.local_machine import identify_store
from orun.agent.snapshots import share, take_snapshot
from orun.core.activity import report
from orun.core.events import Notice
from orun.core.machines import Joined, Leaving, Snapshot
from orun.core.serialization import replace
from orun.errors import NoMachine, UsageError
from orun.fs.os_errors import quote
from orun.planning.assignment import Assignment
from orun.planning.plan import Plan
from orun.planning.planner import Planner
from orun.remote.known_results import KnownResults
from orun.remote.options import Remote
from orun.remote.settings import Settings, read_fleet_url, read_remote_url
from orun.runner.fleet import Fleet, FleetRun
from orun.runner.open_fleet import format_agent_command, open_fleet
from orun.runner.preflight import find_without_machine
from orun.text.counts import count

POLL_SECONDS = 2.0  # between two looks for machines that join


@contextmanager
def join_fleet(
    executor: Fleet | str, planner: Planner, remote: Settings | None, wait: float = 0.0
) -> Iterator[FleetRun]:
    """Open a fleet for the time of a run, share the project with it, and let the planner decide with its facts.

    Args:
        executor: the fleet, or its URL.
        planner: of the pipeline.
        remote: the store that all machines share.
        wait: seconds that a stage waits for a machine that can run it.

    Raises:
        UsageError: if there is no remote that can be written, or the fleet is not known.
        StoreError: if the fleet cannot be reached.
    """
    if remote is None or remote.mode == "read":
        problem = "there is none" if remote is None else f"{remote.url} is only read"
        raise UsageError(
            "a run on several machines needs a remote store that can be written, through which results travel",
            why=problem,
            hint="name one that all machines reach: --remote s3://bucket/path, or --remote file:///shared/folder",
        )
    if isinstance(executor, str):
        report(f"connecting to the machines at {executor}")
    with closing(open_fleet(executor) if isinstance(executor, str) else executor) as fleet:
        report("sending the project to the remote")
        command = format_agent_command(executor if isinstance(executor, str) else "")
        options = _format_options(executor, remote, planner.pipeline.project)
        run = FleetRun(fleet, share_project(planner, remote), wait, command, options)
        planner.assignment = Assignment(planner.pipeline, identify_store(planner.store.root))
        machines = fleet.machines()
        report(f"asking {count(len(machines), 'machine')} for facts")
        facts = fleet.facts(run.snapshot, remote.url)
        if any(item.problem for item in facts):
            run = replace(run, snapshot=share_project(planner, remote, repair=True))
            facts = fleet.facts(run.snapshot, remote.url)
        planner.assignment.update(machines, facts)
        _take_news(fleet, planner.assignment)
        planner.results.in_remote = KnownResults(planner.store.root, remote)
        yield run


def _format_options(executor: Fleet | str, remote: Settings, project: Path) -> str:
    """Return the options by which a command line named a fleet and its remote, as far as no setting names them."""
    named = {
        "--on": executor if isinstance(executor, str) and executor != read_fleet_url(None, project) else "",
        "--remote": remote.url if remote.url != read_remote_url(Remote(), project) else "",
    }
    return "".join(f" {option} {quote(url)}" for option, url in named.items() if url)


def _take_news(fleet: Fleet, assignment: Assignment) -> None:
    """Take note of what a fleet has said before the first order: who takes no part, who has joined or leaves."""
    for message in fleet.wait(0.0):
        if isinstance(message, Notice):
            assignment.leave_out(message.text)
        elif isinstance(message, Joined):
            assignment.add(message.machine, message.facts)
        elif isinstance(message, Leaving):
            assignment.remove(message.machine)


def share_project(planner: Planner, remote: Settings, *, repair: bool = False) -> Snapshot:
    """Take a snapshot of the project and push it to the remote; with `repair` also what seems to be there."""
    tree = take_snapshot(planner.pipeline, planner.store)
    share(tree, planner.store, remote, repair=repair)
    return tree.snapshot


def plan_on_fleet(
    run: FleetRun,
    planner: Planner,
    remote: Settings,
    chosen: Collection[str],
    notify: Callable[[str], None],
) -> Plan:
    """Return the plan once each chosen stage has a machine that can run it; tell what is waited for when that changes.

    Raises:
        NoMachine: if a stage has none in time.
    """
    assert planner.assignment  # noqa: S101 - `join_fleet` made it
    until, shown = monotonic() + run.wait, ""
    while True:
        plan = planner.plan()
        problems = find_without_machine(plan, chosen)
        if not problems:
            return plan
        error = build_no_machine_error(plan, problems, run.agent_command)
        if monotonic() >= until:
            raise error
        if str(error) != shown:
            shown = str(error)
            notify(f"waiting for a machine: {'; '.join(_format_problems(problems))}")
        sleep(min(POLL_SECONDS, max(until - monotonic(), 0.0)))
        planner.assignment.update(run.fleet.machines(), run.fleet.facts(run.snapshot, remote.url))
        _take_news(run.fleet, planner.assignment)


def build_no_machine_error(plan: Plan, problems: Mapping[str, str], agent_command: str) -> NoMachine:
    """Return the error that stages have no machine, by their problems, with the command that starts one."""
    texts = _format_problems(problems)
    labels = plan[next(iter(problems))].stage.runs_on
    options = "".join(f" --label {quote(f'{name}={text}')}" for name, text in labels.items())
    hint = f"start one with: {agent_command}{options}, or wait for one: --wait 30m"
    if plan.left_out and not plan.machines:
        return NoMachine("no machine that was found can be used", why="\n".join(plan.left_out), hint=hint)
    if len(texts) == 1:
        return NoMachine(texts[0], why="\n".join(plan.left_out), hint=hint)
    why = "\n".join((*texts, *plan.left_out))
    return NoMachine(f"{len(texts)} stages have no machine that can run them", why=why, hint=hint)


def _format_problems(problems: Mapping[str, str]) -> list[str]:
    return [f"{stage}: {problem}" for stage, problem in problems.items()]
