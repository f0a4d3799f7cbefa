"""Member of a cluster: Ray on an agent's machine, and the actor that leads to the agent's socket.

`python -m orun.cluster.member HEAD MACHINE SOCKET` says on standard output that the machine has joined, or why not.
It ends with its standard input, or says why it ends sooner.
"""

from __future__ import annotations

import select
import sys
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orun.cluster.actor import PATIENCE, POLL, Tunnel
from orun.cluster.connection import run_connected
from orun.cluster.messages import Message, Output
from orun.cluster.settings import ACTOR, HeadError, unreachable

START_PATIENCE = 60.0  # seconds for Ray to start the actor's process


def join(address: str, machine: str, socket: str, output: Output) -> None:
    """Start the actor of a machine in the cluster, and stay until standard input ends.

    Args:
        address: of the head.
        machine: its id.
        socket: path of the agent's socket.
        output: takes the message that it has joined.

    Raises:
        HeadError: if the machine's name is taken, or the head or the actor ends.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": here}
    actor_class = ray.remote(Tunnel)
    try:
        actor = actor_class.options(name=ACTOR + machine, **options).remote(socket)
    except ValueError as error:  # of the name
        hint = "Give this machine another name: --name"
        raise HeadError(f"a machine named {machine} has joined {address} already", hint=hint) from error
    try:
        ray.get(actor.ping.remote(), timeout=START_PATIENCE)
        output.send(Message())
        _stay(address, actor)
    except RayError as error:
        raise HeadError(
            f"the head at {address} has lost this machine", why=str(error).strip().partition("\n")[0]
        ) from error


def _stay(address: str, actor: Any) -> None:
    """Return when standard input ends.

    Raises:
        HeadError: if the head has ended.
        RayError: if the actor has ended, as it does when this machine was cut off.
    """
    failures = 0
    while not select.select([sys.stdin], [], [], POLL)[0]:
        why = unreachable(address)
        failures = failures + 1 if why else 0
        if failures * POLL >= PATIENCE:
            raise HeadError(f"the head at {address} has ended", why=why, hint="Start it again: orun head")
        if not failures:
            ray.get(actor.ping.remote(), timeout=PATIENCE)


def main() -> None:
    """Be the member for the agent that started this process."""
    address, machine, socket = sys.argv[1:]
    run_connected(address, partial(join, address, machine, socket))


if __name__ == "__main__":
    main()
