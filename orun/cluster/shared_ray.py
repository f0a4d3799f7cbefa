"""Ray of a machine that is a member of a cluster: one for all agents and runs of a user there.

The first that uses it starts a guard (`python -m orun.cluster.shared_ray FOLDER OPTION...`), which starts Ray and ends
it when nobody uses it any more, however the users ended. Each user holds the lock `users` with others. The guard takes
it alone to end Ray, so that nobody connects to a Ray that is about to end: a new user waits, and starts another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from orun.cluster import raylet
from orun.cluster.settings import build_environment
from orun.fs.digests import digest_bytes
from orun.fs.locks import Lock

FOLDERS = "/tmp"  # noqa: S108 - where Ray has its own files; the same for all, whatever their TMPDIR
START_PATIENCE = 180.0  # seconds for Ray to join the cluster on a busy machine
STARTED = "Ray runtime started"  # what it prints then
BUSY = "timed out during startup"  # what it prints when the machine has been too busy for 30 s
LOOK = 0.2  # seconds between two looks


class NotJoinedError(Exception):
    """Ray has not joined the cluster. The text is what it printed."""


def use_ray(address: str, own: str) -> Lock:
    """Let Ray on this machine join a cluster, unless it has; return the lock by which it is used.

    `own` is the address by which the head and the other members reach this machine.

    Raises:
        NotJoinedError: if it does not join.
        StoreError: if the locks cannot be taken.
    """
    folder = _create_folder(address, own)
    user, start = Lock(folder / "users", exclusive=False, keep=True), Lock(folder / "start", keep=True)
    user.acquire()
    try:
        start.acquire()
        with start:
            _start(folder, raylet.build_member_options(address, own))
    except BaseException:
        user.release()
        raise
    return user


def _create_folder(address: str, own: str) -> Path:
    """Return the folder of this user's locks and logs for a membership."""
    name = digest_bytes(f"{address} {own}".encode())[:12]
    folder = Path(FOLDERS, f"orun-ray-{os.getuid()}-{name}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise NotJoinedError(f"{folder} belongs to another user")
    return folder


def _start(folder: Path, options: tuple[str, ...]) -> None:
    """Start the guard unless there is one, and wait until Ray has joined."""
    guard, process = Lock(folder / "guard", keep=True), None
    if guard.try_acquire():
        guard.release()
        (folder / "ray.log").write_bytes(b"")
        with (folder / "guard.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "orun.cluster.shared_ray", str(folder), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=build_environment(),
                start_new_session=True,  # it outlives this process while others use Ray
            )
    until = time.monotonic() + START_PATIENCE
    while STARTED not in _read_text(folder, "ray.log"):
        ended = process.poll() is not None if process else guard.try_acquire()
        if ended or time.monotonic() > until:
            guard.release()
            raise NotJoinedError(_read_text(folder, "ray.log") + _read_text(folder, "guard.log"))
        time.sleep(LOOK)


def _read_text(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8", errors="replace")


def main() -> None:
    """Be the guard: hold its lock while Ray runs, and end Ray when nobody uses it."""
    folder, *options = sys.argv[1:]
    guard, users = Lock(Path(folder, "guard"), keep=True), Lock(Path(folder, "users"), keep=True)
    if not guard.try_acquire():
        return
    while not users.held:
        process = raylet.start(options, Path(folder, "ray.log"))
        while process.poll() is None and not users.try_acquire():
            time.sleep(LOOK)
        raylet.stop(process)
        if BUSY not in _read_text(Path(folder), "ray.log"):
            break
    guard.release()
    users.release()


if __name__ == "__main__":
    main()
