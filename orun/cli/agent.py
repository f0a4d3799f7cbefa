"""orun agent: run stages on this machine for runs on others."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.signals import stop_signals
from orun.cli.verb import Verb
from orun.errors import UsageError

if TYPE_CHECKING:
    from orun.environment.resources import Resources

EXAMPLES = (
    ("orun agent --join head:6379 --label accelerator=T4", "join the machines that meet at `orun head`"),
    ("orun agent --listen unix:///run/user/1000/orun.sock", "serve runs of this user on this machine, or of a tunnel"),
    ("orun agent --listen tcp://10.0.0.7:7777 --token-file token", "serve runs of a private network that know a token"),
    ("orun agent --listen unix:///tmp/t4.sock --label accelerator=T4 --resources cpus=4", "label it; lend 4 cores"),
)  # fmt: skip


@click.command("agent", cls=Verb, examples=EXAMPLES)
@click.option("--join", metavar="HOST:PORT", help="Head that runs meet this agent at; needs Ray.")
@click.option(
    "--listen", metavar="URL", help="Without a head, where runs find this agent: unix:///PATH or tcp://HOST:PORT."
)
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="What `runs_on:` may ask for. Repeatable.")
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Name of the machine among others: $ORUN_HOST or the host's, when left out.",
)
@click.option(
    "--resources",
    metavar="LIST",
    help="What stages may use together: cpus=4,memory=16GB,gpus=1. All there is of each, when left out.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Secret that runs must know to connect over TCP.",
)
@click.option(
    "--grace",
    metavar="DURATION",
    help="How long running stages may take to end after SIGTERM or Ctrl-C: 20s, when left out.",
)
@options.store_option
def command(
    join: str | None,
    listen: str | None,
    labels: Sequence[str],
    name: str,
    resources: str | None,
    token_file: Path | None,
    grace: str | None,
    store: Path | None,
) -> int:
    """Run stages on this machine for runs on others, which name it or its head by `--on URL`.

    An agent runs the code of every run that may connect to it, as this user. A Unix socket is for this user alone. Over
    TCP a run must know the secret in --token-file; what it sends is not encrypted, so listen on a private network.

    Projects and results come from the remote that the run names, and results go there. Secrets and variables are those
    of the agent's own environment. `trusted-keys` in the `pyproject.toml` of the current folder says whose results it
    accepts.

    At SIGTERM or Ctrl-C it takes no more stages, and those that run have --grace to end. The others go back to their
    runs, which start them elsewhere. A second signal stops everything at once.
    """
    from importlib.metadata import version

    from orun.agent.address import Address, read_token
    from orun.agent.local_machine import become_plain, describe_machine
    from orun.agent.service import GRACE_SECONDS, Service
    from orun.cluster.membership import Membership
    from orun.cluster.settings import build_environment, check_ray, parse_address
    from orun.environment.env_vars import NEIGHBOURS
    from orun.store import Store
    from orun.store.layout import locate_store

    if (join is None) == (listen is None):
        raise UsageError("an agent needs --join or --listen, and not both", hint="orun agent --join head:6379")
    named = options.parse_pairs("--label", "NAME=VALUE", labels, "orun agent --label accelerator=T4 ...", filled=True)
    lent = _parse_resources(resources)
    head = parse_address(join) if join else ""
    environment = build_environment()  # before the stages' environment is cleaned of Ray
    options.warn(become_plain())
    if head:
        check_ray()
        os.environ[NEIGHBOURS] = f"ray {version('ray')}"  # a fact of measurements
    machine = describe_machine(name, named, lent)
    membership, error = None, None
    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(locate_store(store)))
        if head:
            folder = stack.enter_context(TemporaryDirectory(prefix="orun-agent-"))
            with stop_signals():
                membership = Membership(head, machine.id, Path(folder), environment)
            stack.callback(membership.close)
            address = Address(host=membership.host, token=secrets.token_hex())
        else:
            address = Address.parse(listen or "", read_token(token_file) if token_file else "")
        service = Service(
            address, machine, opened, folder=Path.cwd(), log=_log,
            grace=GRACE_SECONDS if grace is None else options.parse_seconds("--grace", grace),
        )  # fmt: skip
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
                signal.signal(number, service.stop)
        if membership:
            membership.announce(service.address, service.end)
        _log(f"machine {machine.id} {f'has joined {head}' if head else f'listens at {service.address}'}")
        service.run()
        error = membership.find_error() if membership else None
    if error:
        raise error
    return 0


def _log(text: str) -> None:
    """Print a line, if somebody takes it: the agent goes on without a terminal, and with a full disk."""
    with suppress(OSError):
        click.echo(text)


def _parse_resources(text: str | None) -> Resources:
    """Return what stages may use together, as a list such as `cpus=4,memory=16GB` says; all there is of the others."""
    from orun.core.serialization import replace
    from orun.environment.resources import find_available_resources
    from orun.pipeline.grammar import LEAST_MEMORY
    from orun.text.units import parse_size, show

    lent = find_available_resources(memory=True)
    forms: dict[str, tuple[str, Callable[[str], int], int]] = {
        "cpus": ("cores", int, 1), "memory": ("memory", parse_size, LEAST_MEMORY), "gpus": ("gpus", int, 1),
    }  # fmt: skip
    for item in text.split(",") if text is not None else ():
        name, _, value = (part.strip() for part in item.partition("="))
        field, parse, least = forms.get(name, ("", int, 1))
        try:
            number = parse(value)
        except ValueError:
            number = 0
        if not field or number < least:
            raise UsageError(
                f"--resources wants a list such as cpus=4,memory=16GB,gpus=1, not '{item}'",
                hint="leave out what is lent whole; CUDA_VISIBLE_DEVICES says which GPUs",
            )
        if name == "memory" and lent.memory and number > lent.memory:
            raise UsageError(f"--resources {item} is more than this machine has: {show(lent.memory, 'B')}")
        lent = replace(lent, **{field: number})
    return lent
