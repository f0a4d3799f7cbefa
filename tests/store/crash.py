"""Sudden death: `python -m tests.store.crash FOLDER kill|power FIRST STEP` and its report as JSON.

A small run is done in a child process that kills itself before its n-th change to the file system, for n = FIRST,
FIRST + STEP, ... as long as there are that many. With `power`, the changes that no fsync has made durable are lost too:
content of files that were not synced, and new names in folders that were not. What SQLite has written stays, which is
the worse case: the index then knows of files whose content is gone. After each death the run is done again, in full.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.store.workload import run


class Disk:
    """Watches the changes that this process makes and knows which of them would survive a power cut.

    Args:
        root: the folder whose fate is looked at.
        death: number of the change before which the process dies; 0 for never.
        power: whether changes that are not durable are lost then; their random choice depends on `death`.
    """

    CHANGES = ("chmod", "fchmod", "fsync", "link", "mkdir", "open", "rename", "rmdir", "unlink", "utime", "write")

    def __init__(self, root: Path, death: int, *, power: bool) -> None:
        self.root, self.death, self.power = root, death, power
        self.count = 0
        self.synced: set[tuple[int, int, int]] = set()
        self.named: dict[str, bytes | None] = {}  # a name that may be lost -> what was there before
        self.original = {name: getattr(os, name) for name in self.CHANGES}
        for name in self.CHANGES:
            setattr(os, name, self.watch(name))

    def watch(self, name: str) -> Callable[..., Any]:
        def call(*values: Any, **options: Any) -> Any:
            if name != "open" or values[1] & os.O_CREAT:
                self.count += 1
                if self.count == self.death:
                    self.die()
            note = getattr(self, f"note_{name}", None)
            if note:
                note(*values)
            return self.original[name](*values, **options)

        return call

    def note_fsync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        if path.is_dir():
            self.named = {name: old for name, old in self.named.items() if Path(name).parent != path}
        else:
            status = os.fstat(descriptor)
            self.synced.add((status.st_dev, status.st_ino, status.st_size))

    def note_rename(self, _: str, target: Any) -> None:
        path = Path(target)
        self.named[str(path)] = path.read_bytes() if path.is_file() else None

    def note_mkdir(self, path: Any, *_: Any) -> None:
        if not Path(path).exists():
            self.named[str(path)] = None

    def die(self) -> None:
        for name, function in self.original.items():
            setattr(os, name, function)
        if self.power:
            self.lose(random.Random(self.death))
        os.kill(os.getpid(), signal.SIGKILL)

    def lose(self, chance: random.Random) -> None:
        for path in sorted(self.root.rglob("*")):
            if "index" not in path.parts and path.is_file() and self.is_lost(path):
                path.chmod(0o644)
                path.write_bytes(chance.choice([b"", b"\0" * path.stat().st_size]))
        for name, old in self.named.items():
            if chance.random() < 0.5:
                path = Path(name)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(name, ignore_errors=True)  # a stage that has not died yet may still write into it
                else:
                    path.unlink(missing_ok=True)
                if old is not None:
                    Path(name).write_bytes(old)

    def is_lost(self, path: Path) -> bool:
        status = path.stat()
        return (status.st_dev, status.st_ino, status.st_size) not in self.synced


def child(work: Callable[[], object]) -> tuple[int, list[str]]:
    """Do something in a child process: how it ended, and the lines that it wrote before."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(write, 1)
        work()
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as output:
        lines = output.read().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), lines


def say(text: str) -> None:
    """Print a line that survives the death of the process."""
    os.writev(1, [f"{text}\n".encode()])


def die_and_go_on(root: Path, death: int, *, power: bool) -> dict[str, Any] | None:
    """Die before a change and run again; None when the run ends before there are that many."""

    def doomed() -> None:
        Disk(root, death, power=power)
        run(root, say)

    code, stored = child(doomed)
    if code == 0:
        return None
    assert code == -signal.SIGKILL, code
    code, (line,) = child(lambda: say(json.dumps(run(root))))
    assert code == 0, code
    result: dict[str, Any] = json.loads(line)
    return {**result, "death": death, "stored": stored}


def main(folder: Path, mode: str, first: int, step: int) -> None:
    """Die everywhere and print what became of it."""
    deaths: list[dict[str, Any]] = []
    while result := die_and_go_on(folder / str(first), first, power=mode == "power"):
        deaths.append(result)
        shutil.rmtree(folder / str(first))
        first += step
    print(json.dumps(deaths))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
