"""Cost of restoring a deleted output, against hashing it once and copying it.

    python -m benchmarks.restore            1 GiB
    python -m benchmarks.restore --mib 64
    TMPDIR=/mnt/xfs python -m benchmarks.restore

If the store hard-links outputs (no reflinks), deleting an output changes the time stamp of the stored object. orun then
computes its digest again before it links the object, which takes most of the time. A copy-on-write file system avoids
it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.spent import ORUN, Spent, in_turn, machine, spend, table
from orun.fs.digests import digest_descriptor

CODE = """\
from orun.stages.contract import Context, stage


@stage(inputs={}, output="files")
def big(context: Context, *, mib: int) -> None:
    block = bytes(range(256)) * 4096
    with (context.output / "big").open("wb") as file:
        for number in range(mib):
            file.write(number.to_bytes(8, "little") + block[8:])
"""


def tasks(folder: Path, mib: int) -> dict[str, Callable[[], Spent]]:
    """Build the pipeline, and return the tasks to compare."""
    (folder / "big.py").write_text(CODE, "utf-8")
    pipeline = folder / "big.yaml"
    pipeline.write_text(f"name: big\nstages:\n  big: {{uses: ./big.py:big, with: {{mib: {mib}}}}}\n", "utf-8")
    command = (*ORUN, str(pipeline), "--store", str(folder / "store"), "-q")
    spend(command)
    output = folder / "store" / "out" / "big" / "big"
    return {
        "orun, the output deleted": partial(_deleted, command, output),
        "orun, nothing deleted": partial(spend, command),
        "its digest, once": partial(_digested, output / "big"),
        "a copy of it": partial(_copied, output / "big", folder / "copy"),
    }


def _deleted(command: Sequence[str], output: Path) -> Spent:
    shutil.rmtree(output)
    spent = spend(command)
    spend(command)  # it writes the no-op record for the next run
    return spent


def _digested(path: Path) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        digest_descriptor(file.fileno())
    return Spent(time.process_time() - cpu, time.perf_counter() - wall)


def _copied(path: Path, target: Path) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    shutil.copyfile(path, target)
    spent = Spent(time.process_time() - cpu, time.perf_counter() - wall)
    target.unlink()
    return spent


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024, help="size of the output")
    parser.add_argument("--rounds", type=int, default=5, help="figures are medians")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="restore-") as folder:
        spent = in_turn(tasks(Path(folder), options.mib), options.rounds)
    rows = [[name, f"{cost.cpu:.3f}", f"{cost.wall:.3f}"] for name, cost in spent.items()]
    print(machine(), table([f"{options.mib} MiB", "CPU s", "wall s"], rows), sep="\n\n")


if __name__ == "__main__":
    main()
