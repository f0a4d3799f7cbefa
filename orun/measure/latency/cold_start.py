"""Cold start of a model in a process of its own: time until it is ready, and memory.

Each launch starts a new interpreter, imports the runtime, makes the session and runs it a few times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.core.serialization import Record, decode, encode, replace
from orun.core.targets import Target
from orun.errors import OrunError
from orun.measure.binding import bind_inference
from orun.measure.latency.peak_memory import INFORMATION, parse_arena_bytes, read_gpu_memory
from orun.measure.session import open_session

STATUS = Path("/proc/self/status")
LINES = 5  # of the process's stderr that a message shows


class Request(Record, frozen=True):
    """Request for one launch.

    Attributes:
        model: path of the proto.
        target: where it runs.
        runs: inferences, the first included.
        bound: whether inputs and outputs are bound to the device beforehand.
        watched: whether arena and GPU memory are read, which slows the launch down.
    """

    model: Path
    target: Target
    runs: int
    bound: bool = False
    watched: bool = False


class Reading(Record, frozen=True):
    """Result of a launch: times in seconds, resident memory in bytes (0 where there is no `STATUS`).

    Attributes:
        load: time to make the session.
        first: time of the first inference.
        before: memory with the runtime imported and no session made.
        held: memory after the last inference.
        peak: largest memory at any time.
        arena: bytes that ONNX Runtime's CPU arena took in all; None if not watched.
        gpu: GPU memory in use after the last inference, less that before; None if not watched or without a GPU.
    """

    load: float
    first: float
    before: int
    held: int
    peak: int
    arena: int | None = None
    gpu: int | None = None


def launch_cold(request: Request, feeds: Mapping[str, NDArray[Any]]) -> Reading:
    """Run the model in a new process.

    Args:
        request: what to run.
        feeds: its inputs by name.

    Raises:
        OrunError: if the process fails, with the end of its stderr.
    """
    with TemporaryDirectory(prefix="cold-start-") as folder:
        work = Path(folder)
        (work / "request.json").write_text(json.dumps(encode(request)), "utf-8")
        for number, value in enumerate(feeds.values()):
            plain = value.astype(np.str_) if value.dtype == object else value
            np.save(work / f"{number}.npy", plain, allow_pickle=False)
        (work / "names.json").write_text(json.dumps(list(feeds)), "utf-8")
        command = [sys.executable, "-P", "-m", "orun.measure.latency.cold_start", folder]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode:
            stderr = [line for line in result.stderr.strip().splitlines() if line.strip()]
            raise OrunError(
                f"a process that runs {request.model.name} alone failed",
                why="\n".join(stderr[-LINES:]) or f"exit status {result.returncode}, and it wrote nothing to stderr",
            )
        reading = decode(Reading, json.loads((work / "reading.json").read_bytes()))
        return replace(reading, arena=parse_arena_bytes(result.stderr)) if request.watched else reading


def launch_in_turn(
    requests: Mapping[str, Request],
    feeds: Mapping[str, Mapping[str, NDArray[Any]]],
    count: int,
    progress: Callable[[int, int, str], None],
) -> dict[str, list[Reading]]:
    """Launch every model `count` times in turn. A first launch of each, which reads its files, does not count.

    Args:
        requests: by the model's role.
        feeds: inputs by the model's role.
        count: launches of each model that count.
        progress: called as progress(launches done, of launches, "launches").
    """
    readings: dict[str, list[Reading]] = {role: [] for role in requests}
    total, done = (count + 1) * len(requests), 0
    for number in range(count + 1):
        for role, request in requests.items():
            reading = launch_cold(request, feeds[role])
            if number:
                readings[role].append(reading)
            done += 1
            progress(done, total, "launches")
    return readings


def read_resident() -> tuple[int, int]:
    """Return the resident bytes of this process, now and at their peak; zeros where there is no `STATUS`."""
    if not STATUS.exists():
        return 0, 0
    lines = (line.partition(":") for line in STATUS.read_text("utf-8").splitlines())
    sizes = {name: int(value.split()[0]) * 1024 for name, _, value in lines if value.endswith(" kB")}
    return sizes["VmRSS"], sizes["VmHWM"]


def _main(folder: Path) -> int:
    import onnxruntime  # its own memory is not the model's

    request = decode(Request, json.loads((folder / "request.json").read_bytes()))
    names = json.loads((folder / "names.json").read_bytes())
    feeds = {name: np.load(folder / f"{number}.npy", allow_pickle=False) for number, name in enumerate(names)}
    used = read_gpu_memory(request.target) if request.watched else None
    if request.watched:
        onnxruntime.set_default_logger_severity(INFORMATION)
    before, _ = read_resident()
    start = perf_counter()
    try:
        session = open_session(request.model, request.target)
    except OrunError as error:
        print(error, file=sys.stderr)  # noqa: T201 - to the parent process
        return 1
    load = perf_counter() - start
    run = bind_inference(session, feeds, bound=request.bound)
    start = perf_counter()
    run()
    first = perf_counter() - start
    for _ in range(request.runs - 1):
        run()
    held, peak = read_resident()
    gpu = None if used is None else (read_gpu_memory(request.target) or 0) - used
    (folder / "reading.json").write_text(json.dumps(encode(Reading(load, first, before, held, peak, gpu=gpu))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
