"""Settings of the Ray processes: address, token, environment variables."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from orun.agent.address import is_host
from orun.environment.env_vars import HEAD_TOKEN
from orun.errors import MissingPackages, StoreError, UsageError
from orun.fs.os_errors import convert_os_errors, quote

PORT = 6379
LAST_PORT = 65535
SCHEME = "ray://"
NAMESPACE = "orun"  # of Ray's named actors
ACTOR = "agent-"  # first part of an actor's name; the machine's id is the second
TOKEN_FILE = ".ray/auth_token"  # noqa: S105 - its place below the home folder, where Ray looks by default
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"  # noqa: S105 - variable with another place
CONNECT_PATIENCE = 5.0  # seconds for the head to accept a connection

# Ray takes 7 minutes to notice a cut link by default; with these it takes 10 seconds.
VARIABLES = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # a call after the end would start a cluster on this machine
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}


class HeadError(StoreError):
    """The head of a cluster cannot be used."""


def build_environment() -> Mapping[str, str]:
    """Return the environment of processes that import Ray; `RAY_ADDRESS` would replace the address that they name."""
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | VARIABLES


def parse_address(url: str) -> str:
    """Return `HOST:PORT` of a head from `ray://HOST:PORT`, `HOST:PORT` or `HOST`.

    Raises:
        UsageError: if it is none of these.
    """
    host, _, port = url.removeprefix(SCHEME).rstrip("/").rpartition(":")
    if not host and port and not port.isdecimal():
        host, port = port, str(PORT)
    if not (is_host(host) and "/" not in host and port.isdecimal() and int(port) <= LAST_PORT):
        raise UsageError(f"'{url}' is no address of a head", hint=f"write HOST:PORT, as in head:{PORT}")
    return f"{host.strip('[]')}:{int(port)}"


def check_ray() -> None:
    """Raise MissingPackages if Ray is not installed here."""
    if importlib.util.find_spec("ray") is None:
        raise MissingPackages("Ray is not installed here", ["ray"])


def check_head(address: str) -> None:
    """Raise HeadError if nothing listens at the address of the head."""
    if why := explain_unreachable(address):
        host, _, port = address.rpartition(":")
        hint = f"Start one on {host}: orun head" + (f" --port {port}" if int(port) != PORT else "")
        raise HeadError(f"no head answers at {address}", why=why, hint=hint)


def explain_unreachable(address: str) -> str:
    """Return why nothing can be connected to at an address; empty if something listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def has_token(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether Ray would find a token in an environment."""
    return bool(environment.get(HEAD_TOKEN)) or locate_token_file(environment).is_file()


def locate_token_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file in which Ray looks for the token in an environment."""
    return Path(environment.get(TOKEN_PATH) or Path.home() / TOKEN_FILE)


def check_token(address: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError if there is no token to show to the head."""
    if not has_token(environment):
        host, _, _ = address.rpartition(":")
        file = locate_token_file(environment)
        hint = f"Copy the head's: scp {host}:{TOKEN_FILE} {quote(file)}\nor set {HEAD_TOKEN}"
        raise UsageError(f"no token for the head at {address}", why=f"{file} does not exist", hint=hint)


def make_token() -> bool:
    """Write a token for a new cluster if there is none; return whether there was none."""
    if has_token():
        return False
    file = locate_token_file()
    with convert_os_errors(f"write the token {file}", file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(secrets.token_hex(32))
    return True
