"""No-op check of a run on several machines: are they still there, with the facts that its results depend on?

Only the machines know their drivers, packages and variables, so they are asked. What is on this machine is checked
before, by `check`. That results are still in the remote is not looked at, as in any run with nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from orun.core.activity import report
from orun.core.machines import Machine, MachineFacts, Snapshot
from orun.core.serialization import Record, decode, encode
from orun.errors import OrunError
from orun.fs.digests import digest_bytes
from orun.runner.open_fleet import open_fleet
from orun.store.checksummed_json import encode_canonical

if TYPE_CHECKING:
    from orun.planning.planner import Planner
    from orun.runner.fleet import FleetRun


class FleetState(Record, frozen=True):
    """Fleet of a run and the digest of its machines and their facts, as a no-op record has them."""

    url: str
    remote: str
    snapshot: Snapshot
    machines: str


def digest_machines(machines: Iterable[Machine], facts: Iterable[MachineFacts]) -> str:
    """Return the digest of machines and their facts; load, free disk and time do not count."""
    known = {item.machine: encode(item) for item in facts}
    each = {item.id: [dict(item.labels), item.orun, known.get(item.id)] for item in machines}
    return digest_bytes(encode_canonical(each))


def build_state(url: str, run: FleetRun, planner: Planner, remote: str) -> FleetState:
    """Return the state of the fleet of a run, with the facts that the planner decided with."""
    assert planner.assignment  # noqa: S101 - this is a run on several machines
    machines = digest_machines(planner.assignment.machines.values(), planner.assignment.list_facts())
    return FleetState(url, remote, run.snapshot, machines)


def is_unchanged(data: Any) -> bool:
    """Return whether the machines of a recorded run are there with the facts of then; False if that cannot be known."""
    state = decode(FleetState, data)
    report(f"asking the machines at {state.url} for their facts")
    try:
        fleet = open_fleet(state.url)
    except OrunError:  # the planner meets it, too, and says so
        return False
    try:
        return digest_machines(fleet.machines(), fleet.facts(state.snapshot, state.remote)) == state.machines
    except OrunError:
        return False
    finally:
        fleet.close()
