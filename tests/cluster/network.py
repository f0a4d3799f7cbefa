"""Machines of a test: network namespaces on a bridge, with links that can be cut."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_networks = itertools.count()
RAY = "/tmp/ray"  # noqa: S108 - where Ray keeps its sockets; their paths must be short


def ip(*arguments: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


def why_no_network() -> str:
    """Return why there can be no namespaces here; empty if there can."""
    if not shutil.which("ip"):
        return "the program `ip` is not installed"
    name = f"orun-{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "bridge", "type", "bridge")
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.decode().strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=30)
    return ""


class Network:
    """Machines by name, each in a network namespace of its own.

    Args:
        names: the machines; the first has the lowest address.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._prefix = f"orun-{os.getpid()}-{next(_networks)}-"
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        Path(RAY).mkdir(mode=0o777, exist_ok=True)
        ip("netns", "add", self._hub)
        ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self._hub, "link", "set", "bridge", "up")
        for name, number in self._numbers.items():
            namespace, link = self._prefix + name, f"link{number}"
            ip("netns", "add", namespace)
            ip("-n", self._hub, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("-n", self._hub, "link", "set", link, "master", "bridge", "up")
            ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "route", "add", "default", "via", self.address(name))

    @property
    def _hub(self) -> str:
        return self._prefix + "hub"

    def address(self, name: str) -> str:
        """Return the address of a machine."""
        return f"10.99.{os.getpid() % 250}.{self._numbers[name]}"  # another network for each process of tests

    def command(self, name: str, folder: Path, *arguments: str) -> list[str]:
        """Return a command line that runs on a machine; the process that it starts becomes the program.

        Args:
            name: the machine.
            folder: of the machine, for Ray's files: in a shared one, machines that start at a time disturb each other.
            arguments: the program and its arguments.
        """
        mount = ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {RAY} && exec "$@"', str(folder)]
        return ["ip", "netns", "exec", self._prefix + name, *mount, *arguments]

    def cut(self, name: str) -> None:
        """Cut a machine's link."""
        ip("-n", self._hub, "link", "set", f"link{self._numbers[name]}", "down")

    def mend(self, name: str) -> None:
        """Mend a machine's link."""
        ip("-n", self._hub, "link", "set", f"link{self._numbers[name]}", "up")

    def close(self) -> None:
        """Remove the machines."""
        for name in [*self._numbers, "hub"]:
            ip("netns", "del", self._prefix + name)
