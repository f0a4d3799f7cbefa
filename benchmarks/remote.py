"""Cost of pushing to and fetching from a remote, against a plain loop over obstore, with an S3 server on loopback.

python -m benchmarks.remote                     64 files of 4 MiB, three rounds
python -m benchmarks.remote --files 8 --size 1  smaller
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import uuid4

from benchmarks.spent import Spent, in_turn, machine, spend, table
from orun.fs.digests import digest_bytes
from orun.remote.connection import TRANSFERS
from orun.remote.transfers import Piece, Transfers
from orun.remote.trust import Keyring
from orun.store.object_storage import Bucket
from tests.remote import s3

TASKS = ("start", "loop put", "orun push", "loop get", "orun fetch")
KEY = "0" * 64


def loop(source: Path, url: str, target: Path, *, getting: bool) -> None:
    """Transfer as a script would: obstore in as many threads, without checks and without fsync."""
    from obstore import get, put
    from obstore.store import from_url

    place = from_url(url, client_options={"allow_http": True})

    def fetch(name: str) -> None:
        with (target / name).open("wb") as file:
            for chunk in get(place, name).stream(min_chunk_size=1 << 20):
                file.write(chunk)

    def send(name: str) -> None:
        put(place, name, source / name)

    names = [path.name for path in source.iterdir()]
    with ThreadPoolExecutor(TRANSFERS) as pool:
        list(pool.map(fetch if getting else send, names))


def transfer(source: Path, url: str, target: Path, *, getting: bool) -> None:
    """Transfer as orun does: look for each object first, hash it before and after, and sync it to the disk."""
    with ThreadPoolExecutor(TRANSFERS) as pool:
        transfers = Transfers(Bucket(url), Keyring(), pool)
        folder = target if getting else source
        files = sorted(source.iterdir())
        pieces = [Piece(file.name, file.stat().st_size, str(folder / file.name)) for file in files]
        if getting:
            if problems := transfers.fetch(pieces).problems:
                raise SystemExit("\n".join(problems))
        else:
            transfers.push(KEY, b'{"implicit_deps":{},"tree":""}', pieces)


def do(task: str, source: Path, url: str) -> None:
    """Do one task; it has its own process."""
    with tempfile.TemporaryDirectory(dir=source.parent) as target:
        work = {"loop": loop, "orun": transfer}.get(task.partition(" ")[0])
        if work:
            work(source, url, Path(target), getting=task.endswith(("get", "fetch")))


def measure(files: int, size: int, rounds: int) -> Mapping[str, Spent]:
    """Measure every task in turn; each round pushes to an empty place."""
    with s3.serving() as port, tempfile.TemporaryDirectory() as folder:
        os.environ |= s3.variables(f"http://127.0.0.1:{port}")
        bucket = s3.new_bucket(port)
        source = Path(folder) / "files"
        source.mkdir()
        chance = random.Random(1)
        for data in (chance.randbytes(size) for _ in range(files)):
            (source / digest_bytes(data)).write_bytes(data)
        places: dict[str, str] = {}

        def run(task: str) -> Spent:
            if task.endswith(("put", "push")):
                places[task[:4]] = f"{bucket}/{uuid4().hex}"
            url = places.get(task[:4], bucket)
            return spend((sys.executable, "-m", "benchmarks.remote", "--do", task, str(source), url))

        return in_turn({task: partial(run, task) for task in TASKS}, rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--size", type=int, default=4, help="MiB of each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--do", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.do:
        do(chosen.do[0], Path(chosen.do[1]), chosen.do[2])
        return 0
    spent = measure(chosen.files, chosen.size << 20, chosen.rounds)
    total = chosen.files * chosen.size * 1.048576
    start = spent["start"]
    rows = [
        [
            name,
            f"{cost.cpu - start.cpu:.2f}",
            f"{cost.wall - start.wall:.2f}",
            f"{total / (cost.wall - start.wall):.0f}",
        ]
        for name, cost in spent.items()
        if name != "start"
    ]
    print(machine())
    print(f"{chosen.files} files of {chosen.size} MiB, above a start of {start.cpu:.2f} CPU s")
    print(table(["task", "CPU s", "wall s", "MB/s"], rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
