"""This machine as others see it, and the process that an agent must be for sound measurements."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time

from orun.core.machines import Machine
from orun.core.serialization import replace
from orun.environment import distributions
from orun.environment.call_cache import cache_calls
from orun.environment.python_path import PACKAGE
from orun.environment.resources import Resources, find_available_resources
from orun.fs.digests import digest_bytes
from orun.fs.signatures import to_signature

OOM_SCORE = Path("/proc/self/oom_score_adj")
LIBRARIES = (*distributions.BUILDS, "onnx", "openvino", "tensorflow", "tensorrt", "torch")
FOREIGN = ("RAY_",)  # beginnings of variables that no stage is to see
RAY_WORKER = "RAY_RAYLET_PID"  # variable of processes that Ray has started
THREADS = "OMP_NUM_THREADS"  # variable that Ray sets in its workers, mostly to 1


def describe_machine(name: str = "", labels: Mapping[str, str] | None = None, lent: Resources | None = None) -> Machine:
    """Return a description of this machine.

    An empty name is that of the host. All there is counts as lent if `lent` is None.
    """
    resources = lent or find_available_resources(memory=True)
    facts = {"architecture": platform.machine(), "system": sys.platform}
    return Machine(
        name or os.environ.get("ORUN_HOST") or platform.node(),
        facts | dict(labels or {}),
        resources.cores,
        resources.memory,
        resources.gpus,
        compute_code_digest(),
        platform.python_version(),
        {name: version for name in LIBRARIES if (version := distributions.list_exact().get(name))},
    )


def with_present_state(machine: Machine, store: Path) -> Machine:
    """Return the description of this machine with its store, present load, free disk and time."""
    return replace(
        machine,
        load=os.getloadavg()[0],
        free=shutil.disk_usage(store).free,
        clock=time(),
        store=identify_store(store),
    )


def identify_store(store: Path) -> str:
    """Return host and file number of a store's folder."""
    status = store.stat()
    return f"{platform.node()}:{status.st_dev}:{status.st_ino}"


def compute_code_signature() -> int:
    """Return a number that changes whenever a file of orun's code does.

    It is quick: `compute_code_digest` reads all files.
    """
    paths = (f"{folder}/{name}" for folder, _, names in os.walk(PACKAGE) for name in names)
    code = (path for path in paths if path.endswith((".py", ".toml")))
    return hash(frozenset((path, to_signature(os.stat(path))) for path in code))  # noqa: PTH116 - hundreds of files


@cache_calls
def compute_code_digest() -> str:
    """Return the digest of orun's code on the disk."""
    files = sorted((*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml")))
    lines = (f"{file.relative_to(PACKAGE)} {digest_bytes(file.read_bytes())}\n" for file in files)
    return digest_bytes("".join(lines).encode())


def become_plain() -> list[str]:
    """Give this process and its stages normal priority and a clean environment; return what could not be changed.

    Agents may be started by a service or a framework that runs its processes as the first to wait or to be killed.
    """
    problems: list[str] = []
    if RAY_WORKER in os.environ and (threads := os.environ.pop(THREADS, "")):
        problems.append(f"{THREADS}={threads} of Ray's worker is left out: stages would use so few threads")
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    if nice := os.getpriority(os.PRIO_PROCESS, 0):
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        except OSError:
            problems.append(f"stages run at nice level {nice}: measurements are slower than they should be")
    with suppress(OSError, ValueError):
        if score := int(OOM_SCORE.read_text()):
            try:
                OOM_SCORE.write_text("0")
            except OSError:
                problems.append(f"the kernel ends stages first when memory runs out (oom_score_adj {score})")
    return problems
