"""Lister of a run: tells which agents are in a Ray cluster, and where.

`python -m orun.cluster.lister HEAD` answers each line on standard input with the agents of all machines that answer
now, as a message on standard output. It ends with its standard input, or says why it ends sooner.
"""

from __future__ import annotations

import sys
from time import sleep
from typing import Any

import ray
from ray.exceptions import RayError

from orun.cluster.actor import PATIENCE
from orun.cluster.connection import run_connected
from orun.cluster.messages import Message, Output
from orun.cluster.settings import ACTOR, NAMESPACE

AGAIN = 1.0  # seconds between two attempts to list the agents
Places = dict[str, tuple[str, str]]  # URL and token by machine


def answer(output: Output) -> None:
    """Answer each line of standard input."""
    known: dict[str, tuple[str, str]] = {}  # places by the id of their actor
    while sys.stdin.readline():
        while (agents := _find_agents(known)) is None:  # Ray cannot say; the end of the head ends this process
            sleep(AGAIN)
        output.send(Message(agents=agents))


def _find_agents(known: dict[str, tuple[str, str]]) -> Places | None:
    """Return the place of each agent that answers; None if Ray cannot list them.

    `known` are the places that were asked for before; new ones are added.
    """
    try:
        listed = ray.util.list_named_actors(all_namespaces=True)
    except RayError:
        return None
    actors: dict[str, Any] = {}
    for name in (each["name"] for each in listed if each["namespace"] == NAMESPACE):
        try:
            actors[name.removeprefix(ACTOR)] = ray.get_actor(name, NAMESPACE)
        except (ValueError, RayError):  # it ended meanwhile
            continue
    questions = {_read_id(actor): actor.place.remote() for actor in actors.values() if _read_id(actor) not in known}
    ray.wait(list(questions.values()), num_returns=len(questions), timeout=PATIENCE) if questions else None
    for identity, question in questions.items():
        try:
            known[identity] = ray.get(question, timeout=0)
        except RayError:  # it does not answer, or ended meanwhile
            continue
    return {machine: known[_read_id(actor)] for machine, actor in sorted(actors.items()) if _read_id(actor) in known}


def _read_id(actor: Any) -> str:
    """Return the id of an actor, which is another one after a restart."""
    identity: str = actor._actor_id.hex()  # noqa: SLF001 - Ray offers no other way
    return identity


def main() -> None:
    """Be the lister of the process that started this one."""
    run_connected(sys.argv[1], answer)


if __name__ == "__main__":
    main()
