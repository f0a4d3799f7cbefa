"""Ray's own process on a machine: `ray start --block`, ended together with the process that starts it.

Started as a program (`python -m orun.cluster.raylet PARENT ...`), this module becomes `ray start` with those arguments.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from orun.cluster.settings import build_environment
from orun.environment import processes

MEMORY = 80 << 20  # bytes of Ray's object store, which nothing uses; Ray would take 30 % of the machine's memory
PATIENCE = 10.0  # seconds for its processes to end
SMALL = ("--num-cpus=0", "--num-gpus=0", f"--object-store-memory={MEMORY}")


def start_head(host: str | None, port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start the head of a cluster, on a port of this machine."""
    place = (f"--node-ip-address={host}",) if host else ()
    return start(("--head", f"--port={port}", "--include-dashboard=false", *place), log)


def build_member_options(address: str, own: str) -> tuple[str, ...]:
    """Return the options of a member of a cluster."""
    return f"--address={address}", f"--node-ip-address={own}"


def start(options: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start Ray with the options of a head or a member; it prints to the log."""
    command = [sys.executable, "-P", "-m", "orun.cluster.raylet", str(os.getpid()), *options, *SMALL]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=build_environment(),
            start_new_session=True,  # Ctrl-C reaches orun alone
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a machine's Ray processes, and wait for their end."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            processes.end_tree(process.pid, 1.0)
        process.wait()


def main() -> None:
    """Become `ray start`; it ends when the process that started it does."""
    parent, *options = sys.argv[1:]
    processes.die_with(int(parent), signal.SIGTERM)
    plain = "--log-color=false"  # `orun head` finds the address in what Ray prints
    os.execv(  # noqa: S606 - no shell is wanted
        sys.executable, [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", plain, *options]
    )


if __name__ == "__main__":
    main()
