"""Addresses of agents: `unix:///run/orun.sock` or `tcp://10.0.0.7:7777`, and the proof that a driver may use one.

A Unix socket belongs to the agent's user alone. Over TCP a driver proves that it knows the agent's token: it answers
a random text with an HMAC, so that the token itself does not travel.
"""

from __future__ import annotations

import errno
import hmac
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from orun.core.serialization import Record
from orun.errors import UsageError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.fs.os_errors import convert_os_errors, quote

SHORTEST = 16  # characters of a token
BACKLOG = 16
CONNECT_SECONDS = 10.0
SOCKET = "/run/user/1000/orun.sock"  # a path as users have them
EXAMPLES = f"unix://{SOCKET}, or tcp://127.0.0.1:7777"
LONGEST_PATH = 107  # bytes of the path of a Unix socket
WILDCARDS = ("", "0.0.0.0", "::", "*")  # noqa: S104 - refused


class Address(Record, frozen=True):
    """Address of an agent."""

    path: str = ""  # of its Unix socket; empty for TCP
    host: str = ""  # name or number; empty for a Unix socket
    port: int = 0  # 0 for any that is free
    token: str = ""  # what drivers must know, over TCP; empty for a Unix socket

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"  # without the token

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix://{self.path}" if self.path else f"tcp://{host}:{self.port}"

    @classmethod
    def parse(cls, text: str, token: str = "") -> Address:
        """Return the address in a URL; UsageError if there is none in it."""
        with suppress(ValueError):
            parts = urlsplit(text)
            path, host, port = unquote(parts.path), parts.hostname or "", parts.port
            if parts.scheme == "unix" and not parts.netloc and path.startswith("/"):
                return cls(path=_check_length(path))  # of this user alone: it needs no token
            if parts.scheme == "tcp" and is_host(host) and port is not None and path in ("", "/"):
                return cls(host=host, port=port, token=token)
        raise UsageError(f"no agent can be at {text!r}", why=f"expected {EXAMPLES}")

    def listen(self) -> socket.socket:
        """Return a listening socket.

        Raises:
            UsageError: if another process listens there, or no socket can be at a TCP address, which needs a token and
                may not be every network.
            StoreError: if a Unix socket cannot be made.
        """
        if self.path:
            return self._listen_unix()
        if not self.token:
            raise UsageError(
                f"{self} needs a token",
                why="everybody who reaches the port could run code as this user",
                hint="openssl rand -hex 32 > token; chmod 600 token; orun agent --listen ... --token-file token",
            )
        if self.host in WILDCARDS:
            raise UsageError(f"{self} is every network of this machine", why="name the address of a private one")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                hint = "choose another port: --listen URL"
                raise UsageError(f"another process listens at {self}", hint=hint) from error
            why = (error.strerror or str(error)).partition(" (while")[0]  # Python appends the address
            hint = "name an address of this machine (hostname -I), and a port from 1024: --listen URL"
            raise UsageError(f"cannot listen at {self}", why=why, hint=hint) from error

    def _listen_unix(self) -> socket.socket:
        with convert_os_errors(f"listen at {self}", self.path):
            self._remove_stale()
            mask = os.umask(0o177)
            try:
                return socket.create_server(self.path, family=socket.AF_UNIX, backlog=BACKLOG)
            finally:
                os.umask(mask)

    def _remove_stale(self) -> None:
        """Remove the socket of an agent that has ended; UsageError if it listens, or the path is another file."""
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise UsageError(f"{self.path} is no socket", hint=f"ls -l {quote(self.path)}")
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(self.path)
                except ConnectionRefusedError:
                    Path(self.path).unlink()
                else:
                    raise UsageError(f"another agent listens at {self}", hint="choose another path: --listen URL")

    def connect(self) -> socket.socket:
        """Return a socket that is connected to the agent; UsageError if none listens there."""
        try:
            return self._connect()
        except OSError as error:
            raise UsageError(
                f"no agent answers at {self}",
                why=error.strerror or str(error),
                hint=f"start an agent there: orun agent --listen {self}{'' if self.path else ' --token-file FILE'}",
            ) from error

    def _connect(self) -> socket.socket:
        if not self.path:
            return socket.create_connection((self.host, self.port), CONNECT_SECONDS)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def remove(self) -> None:
        """Remove the Unix socket, if it is one."""
        if self.path:
            with suppress(OSError):
                Path(self.path).unlink()


class Directory(Protocol):
    """Directory of the agents of a fleet."""

    def find(self, *, wait: bool) -> Mapping[str, Address]:
        """Return the address of each agent by the place that messages name, as of now or, without waiting, of late."""

    def close(self) -> None:
        """Look for no more agents."""


@dataclass
class GivenAddresses:
    """Directory of agents that a user names."""

    addresses: Mapping[str, Address]  # by the places that messages name

    def find(self, *, wait: bool) -> Mapping[str, Address]:
        """See `Directory`."""
        del wait
        return self.addresses

    def close(self) -> None:
        """See `Directory`."""


def is_host(name: str) -> bool:
    """Return whether a name can be that of a host: neither it nor a part of it is empty, and no part is too long."""
    try:
        return name.encode("idna") != b""
    except UnicodeError:
        return False


def _check_length(path: str) -> str:
    """Return the path of a Unix socket; UsageError if it is too long."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(
            f"{path} is too long for a socket",
            why=f"{LONGEST_PATH} bytes are the most",
            hint=f"choose a shorter path, as unix://{SOCKET}",
        )
    return path


def read_token(file: Path) -> str:
    """Return the token in a file; UsageError if there is none, it is no text or too short, or others may read it."""
    replacement = f"openssl rand -hex 32 > {quote(file)}"
    with convert_os_errors(f"read the token {file}", file):
        try:
            mode, content = file.stat().st_mode, read_bounded(file, TEXT_LIMIT)
        except FileNotFoundError:
            hint = f"{replacement} && chmod 600 {quote(file)}"
            raise UsageError(f"there is no token file {file}", hint=hint) from None
    if mode & 0o077:
        raise UsageError(f"others may read the token {file}", hint=f"chmod 600 {quote(file)}")
    try:
        token = content.decode().strip()
    except UnicodeDecodeError:
        raise UsageError(f"the token {file} is no text", hint=replacement) from None
    if len(token) < SHORTEST:
        raise UsageError(f"the token {file} is too short: it needs {SHORTEST} characters", hint=replacement)
    return token


def compute_proof(token: str, nonce: str) -> str:
    """Return what proves to an agent that a driver knows the token."""
    return hmac.new(token.encode(), b"orun agent 1\n" + nonce.encode(), sha256).hexdigest()
