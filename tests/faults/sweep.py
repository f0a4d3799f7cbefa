"""Each call of a small run on a store fails in its turn: `python -m tests.faults.sweep FOLDER FIRST STEP`.

One process does all of it, with the library of `calls.py` preloaded, told by the file FOLDER/failing_calls.plan; below
FOLDER/store/ are the stores. It prints what was wrong, a line each, and at last how many calls have failed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orun.errors import StoreError
from orun.fs import locks
from orun.store import index
from tests.faults.calls import AGAIN, ERRORS, HOW, LOOKS, Failing, Fault
from tests.faults.folders import remove
from tests.store.support import content
from tests.store.workload import STAGES, run

PATIENCE = 60  # seconds after which a run waits for what never comes, and this process ends


def faults(failing: Failing, root: Path) -> Iterator[Fault]:
    """Each call of a run with each error that it may meet, once and from then on."""
    failing.set(None)
    run(root)
    remove(root)
    counts = failing.counts()
    for (kind, who), most in counts.items():
        for number in range(1, most + 1 if who == "all" else 0):
            for error in ERRORS[kind]:
                for how in HOW[:1] if error in AGAIN else HOW:
                    yield Fault(kind, who, number, error, how)


def trial(failing: Failing, root: Path, fault: Fault, clean: dict[str, str]) -> str:
    """What was wrong with a run of which a call failed, or with the run after it; nothing if all was well."""
    lines: list[str] = []
    failing.set(fault)
    signal.alarm(PATIENCE)
    try:
        problem = "" if run(root, lines.append, look=False)["digests"] == clean else "other artifacts"
        placed = True
    except StoreError:
        problem, placed = "", False
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        problem, placed = f"{type(error).__name__}: {error}", False
    call = failing.failed()
    failing.set(None)
    if placed and any(content(root / "out" / "bert" / name) != files for name, files in STAGES.items()):
        problem = "other outputs"
    after = run(root)
    signal.alarm(0)
    again = set(after["built"]) & set(lines) if fault.kind not in LOOKS else ()
    problems = {
        "": problem,
        "then other artifacts": "" if after["digests"] == clean else str(after["digests"]),
        "then built though stored": ", ".join(again),
        "then left behind": ", ".join(after["left"]),
    }
    remove(root)
    return "".join(f"{fault}: {call}: {name} {problem}\n" for name, problem in problems.items() if problem)


def main(folder: Path, first: int, step: int) -> None:
    """Let every `step`-th fault happen."""
    failing = Failing.make(Path(os.environ["LD_PRELOAD"]), folder, folder / "store")
    locks.STALE_SECONDS = index.LOCK_TIMEOUT = 0.2  # nobody else has a lock that a call fails to take
    clean: dict[str, Any] = run(folder / "clean")
    tried = list(faults(failing, folder / "store" / "0"))[first::step]
    for number, fault in enumerate(tried):
        print(trial(failing, folder / "store" / str(number), fault, clean["digests"]), end="", flush=True)  # noqa: T201
    print(len(tried))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
