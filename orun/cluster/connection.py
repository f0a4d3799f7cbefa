"""Connection of this process to a Ray cluster. Only programs of their own import this module: it imports Ray."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from threading import Thread
from time import sleep
from typing import NoReturn

import ray

from orun.cluster.actor import PATIENCE, POLL
from orun.cluster.messages import Message, Output
from orun.cluster.settings import CONNECT_PATIENCE, NAMESPACE, HeadError, check_head, explain_unreachable
from orun.cluster.shared_ray import NotJoinedError, use_ray
from orun.environment import processes
from orun.fs.locks import Lock

ATTEMPTS = 3  # to connect


def run_connected(address: str, work: Callable[[Output], None]) -> NoReturn:
    """Connect this process to a cluster, say so, do its work, and end it; a `HeadError` is sent as a message.

    Args:
        address: of the head. This process ends soon after the head has ended.
        work: gets the output for its messages.
    """
    output = Output()
    processes.die_with(os.getppid(), signal.SIGKILL)  # Ray catches SIGTERM, and does not look while it connects
    Thread(target=_watch_head, args=(address, output), daemon=True).start()  # Ray itself would wait for minutes
    try:
        _used = connect(address)  # until this process ends, whatever ends it
        output.send(Message(host=ray.util.get_node_ip_address()))
        work(output)
    except HeadError as error:
        output.send(Message(failed=error.problem, why=error.why, hint=error.hint))
    finally:
        sys.stderr.flush()
        os._exit(0)  # Ray's own end would wait for machines that are gone


def _watch_head(address: str, output: Output) -> None:
    """End this process when the head has refused connections for some time."""
    failures, why = 0, ""
    while failures * POLL < PATIENCE:
        sleep(POLL)
        why = explain_unreachable(address)
        failures = failures + 1 if why else 0
    hint = "Start it again, and the agents after it: orun head"
    output.send(Message(failed=f"the head at {address} has ended", why=why, hint=hint))
    os._exit(0)


def connect(address: str) -> Lock | None:
    """Connect this process to a cluster; return the lock on the Ray of this machine, None if the head runs on it.

    Raises:
        HeadError: if there is no head, or it refuses this machine.
    """
    check_head(address)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), CONNECT_PATIENCE) as connection:
        own, head = connection.getsockname()[0], connection.getpeername()[0]
    if ipaddress.ip_address(head).is_loopback:
        _connect(address, None)
        return None
    used = None
    if own != head:
        try:
            used = use_ray(address, own)
        except NotJoinedError as error:
            raise build_head_error(address, str(error)) from error
    _connect(address, own)
    return used


def _connect(address: str, own: str | None) -> None:
    for left in reversed(range(ATTEMPTS)):
        printed = ""
        try:
            with tempfile.TemporaryFile() as output:
                try:
                    _init(address, own, output.fileno())
                finally:
                    output.seek(0)
                    printed = output.read().decode(errors="replace")
                    sys.stderr.write(printed)
        except Exception as error:
            refused = build_head_error(address, f"{printed}\n{type(error).__name__}: {error}")
            if left and isinstance(error, ConnectionError) and not is_refusal(printed):
                continue  # a busy machine: Ray itself waits a few seconds only
            raise refused from error
        return


def _init(address: str, own: str | None, output: int) -> None:
    """Connect. What Ray's native code prints meanwhile goes to a descriptor: its exceptions do not tell the reason."""
    stderr = os.dup(2)
    os.dup2(output, 2)
    try:
        ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, _node_ip_address=own
        )
    except BaseException:
        with contextlib.suppress(Exception):
            ray.shutdown()
        raise
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def is_refusal(text: str) -> bool:
    """Return whether Ray says that the head does not accept the token."""
    return "InvalidAuthToken" in text or "AuthenticationError" in text


def build_head_error(address: str, text: str) -> HeadError:
    """Return the error that says why Ray does not connect to a head."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "ersion mismatch" in text:  # Ray writes `Version mismatch`, and `version mismatch` within a sentence
        start = next(number for number, line in enumerate(lines) if "ersion mismatch" in line)
        versions = [line.split("Ray:", 1)[1].strip() for line in lines[start:] if "Ray:" in line]
        hint = f"Install the head's versions here: pip install ray=={versions[0] if versions else ray.__version__}"
        why = "\n".join(lines[start : start + 7])
        return HeadError(f"Ray or Python differs from those of the head at {address}", why=why, hint=hint)
    if is_refusal(text):
        hint = "Copy the head's token: ~/.ray/auth_token on its machine, or RAY_AUTH_TOKEN"
        return HeadError(f"the head at {address} refuses this machine's token", hint=hint)
    return HeadError(f"no connection to the head at {address}", why="\n".join(lines[-3:]))
