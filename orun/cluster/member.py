"""Member of a cluster: Ray on an agent's machine, and the actor that says where the agent is.

`python -m orun.cluster.member HEAD MACHINE` says on standard output that the machine has joined, reads the agent's URL
and token from a line of standard input, and says that it can be found, or why not. It ends with its standard input, or
says why it ends sooner.
"""

from __future__ import annotations

import select
import sys
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orun.cluster.actor import PATIENCE, POLL, Listing
from orun.cluster.connection import run_connected
from orun.cluster.messages import Message, Output
from orun.cluster.settings import ACTOR, HeadError, explain_unreachable

START_PATIENCE = 60.0  # seconds for Ray to start the actor's process


def join(address: str, machine: str, output: Output) -> None:
    """Start the actor of a machine in the cluster, and stay until standard input ends.

    Raises:
        HeadError: if the machine's name is taken, or the actor ends, as it does when this machine was cut off.
    """
    place = sys.stdin.readline().split()
    if not place:  # the agent has ended
        return
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": here}
    try:
        actor: Any = ray.remote(Listing).options(name=ACTOR + machine, **options).remote(*place)
    except ValueError as error:  # of the name
        hint = "Give this machine another name: --name"
        raise HeadError(f"a machine named {machine} has joined {address} already", hint=hint) from error
    try:
        ray.get(actor.place.remote(), timeout=START_PATIENCE)
        output.send(Message())
        while not select.select([sys.stdin], [], [], POLL)[0]:
            if not explain_unreachable(address):  # else `run_connected` will say that the head has ended
                ray.get(actor.place.remote(), timeout=PATIENCE)
    except RayError as error:
        why = str(error).strip().partition("\n")[0]
        raise HeadError(f"the head at {address} has lost this machine", why=why) from error


def main() -> None:
    """Be the member for the agent that started this process."""
    address, machine = sys.argv[1:]
    run_connected(address, partial(join, address, machine))


if __name__ == "__main__":
    main()
