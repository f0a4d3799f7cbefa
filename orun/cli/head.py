"""orun head: the meeting point of agents and runs on several machines."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

import click

from orun.cli.signals import stop_signals
from orun.cli.verb import Verb
from orun.cluster import raylet
from orun.cluster.settings import PORT, SCHEME, HeadError, check_ray, explain_unreachable, locate_token_file, make_token
from orun.errors import UsageError

EXAMPLES = (
    ("orun head", f"on port {PORT}, until Ctrl-C"),
    ("orun head --host 10.0.0.5", "a machine with several addresses"),
)
RAYS_OWN = range(10001, 20000)  # the client's port, and those of workers
START_PATIENCE = 120.0  # seconds for the head to accept connections
LOOK = 0.3  # seconds between two looks


@click.command("head", cls=Verb, examples=EXAMPLES)
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Port to listen on.")
@click.option("--host", metavar="ADDRESS", help="Address under which other machines reach this one.")
def command(port: int, host: str | None) -> int:
    """Let machines meet here: agents join the head, runs find them.

    Needs Ray. Prints what to type on the other machines, and runs until Ctrl-C. Agents and runs end soon after it.

    Whoever has the token can run code on every machine. The first head of a user makes one in ~/.ray/auth_token.
    """
    if port in RAYS_OWN:
        raise UsageError(
            f"port {port} is one that Ray takes for itself",
            why=f"its processes listen at {RAYS_OWN.start} to {RAYS_OWN.stop - 1}",
            hint=f"take another one: orun head --port {PORT}",
        )
    check_ray()
    if not explain_unreachable(f"{host or 'localhost'}:{port}"):
        raise HeadError(f"port {port} is in use on this machine", hint=f"Take another one: orun head --port {port + 1}")
    is_new = make_token()
    with tempfile.TemporaryDirectory(prefix="orun-head-") as folder, stop_signals():
        log = Path(folder, "ray.log")
        process = raylet.start_head(host, port, log)
        try:
            address = f"{_wait_until_started(process, host, port, log)}:{port}"
            _show(address, is_new=is_new)
            process.wait()
            raise HeadError("the head has ended", why=_read_tail(log))
        except KeyboardInterrupt:
            click.echo("\nthe head stops; agents and runs end with it", err=True)
            return 0
        finally:
            raylet.stop(process)


def _wait_until_started(process: subprocess.Popen[bytes], host: str | None, port: int, log: Path) -> str:
    """Wait until the head accepts connections; return this machine's address.

    Raises:
        HeadError: if it ends or takes too long.
    """
    until = time.monotonic() + START_PATIENCE
    while time.monotonic() < until and process.poll() is None:
        match = re.search(r"Local node IP: (\S+)", log.read_text(encoding="utf-8", errors="replace"))
        name = host or (match[1] if match else "")
        if match and not explain_unreachable(f"{name}:{port}"):
            return name
        time.sleep(LOOK)
    raise HeadError("the head did not start", why=_read_tail(log))


def _read_tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])


def _show(address: str, *, is_new: bool) -> None:
    token = "made now; copy it to the same place on each machine" if is_new else "the agents and runs need the same one"
    lines = [
        f"the head listens on {address}; Ctrl-C stops it",
        f"token: {locate_token_file()} ({token})",
        "",
        f"join a machine:  orun agent --join {address} --label accelerator=T4",
        f"see who is here: orun machines --on {SCHEME}{address}",
        f"run on them:     orun FILE --on {SCHEME}{address}",
    ]
    click.echo("\n".join(lines))
