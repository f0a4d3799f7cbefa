"""Cold start of a model in a process of its own: time to get ready, and memory.

Each launch is a new interpreter that imports the runtime, makes the session and runs it a few times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Better, Comparison, Estimate, Metric, Unit, further
from orun.core.serialization import Record, decode, encode, replace
from orun.core.targets import Target
from orun.errors import OrunError
from orun.measure.binding import caller
from orun.measure.latency.peak_memory import INFORMATION, arena, gpu_memory
from orun.measure.latency.quantiles import quantile, ranks
from orun.measure.session import open_session

STATUS = Path("/proc/self/status")


class Request(Record, frozen=True):
    """What a launch is to do.

    Attributes:
        model: path of the proto.
        target: where it runs.
        runs: inferences, the first included.
        bound: whether inputs and outputs are bound to the device beforehand.
        watched: whether what its arena takes and the memory of its GPU are found out, which slows it down.
    """

    model: Path
    target: Target
    runs: int
    bound: bool = False
    watched: bool = False


class Reading(Record, frozen=True):
    """What a launch found; times in seconds, memory in bytes that were resident (zeros where there is no `STATUS`).

    Attributes:
        load: to make the session.
        first: the first inference.
        before: with the runtime imported and no session made.
        held: after the last inference.
        peak: the most at any time.
        arena: what ONNX Runtime's arena on the CPU took in all; None where it was not watched.
        gpu: what was in use on the GPU after the last inference, beyond what was before; None without a GPU.
    """

    load: float
    first: float
    before: int
    held: int
    peak: int
    arena: int | None = None
    gpu: int | None = None


def launch(request: Request, feeds: Mapping[str, NDArray[Any]]) -> Reading:
    """Run the model in a new process.

    Args:
        request: what to run.
        feeds: its inputs by name.

    Raises:
        OrunError: when the process fails, with what it said.
    """
    with TemporaryDirectory(prefix="fresh-") as folder:
        work = Path(folder)
        (work / "request.json").write_text(json.dumps(encode(request)), "utf-8")
        for number, value in enumerate(feeds.values()):
            plain = value.astype(np.str_) if value.dtype == object else value
            np.save(work / f"{number}.npy", plain, allow_pickle=False)
        (work / "names.json").write_text(json.dumps(list(feeds)), "utf-8")
        command = [sys.executable, "-P", "-m", "orun.measure.latency.cold_start", folder]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode:
            said = result.stderr.strip().splitlines()
            raise OrunError(
                f"a process that runs {request.model.name} alone failed",
                why="\n".join(said[-3:]) or f"exit status {result.returncode}, and it said nothing",
            )
        reading = decode(Reading, json.loads((work / "reading.json").read_bytes()))
        return replace(reading, arena=arena(result.stderr)) if request.watched else reading


def rounds(
    requests: Mapping[str, Request],
    feeds: Mapping[str, Mapping[str, NDArray[Any]]],
    count: int,
    progress: Callable[[int, int, str], None],
) -> dict[str, list[Reading]]:
    """Launch every model `count` times in turn, after a launch of each that brings its files into memory.

    Args:
        requests: by the model's role.
        feeds: inputs by the model's role.
        count: launches of each model that count.
        progress: told how many launches are done.
    """
    readings: dict[str, list[Reading]] = {role: [] for role in requests}
    total, done = (count + 1) * len(requests), 0
    for number in range(count + 1):
        for role, request in requests.items():
            reading = launch(request, feeds[role])
            if number:
                readings[role].append(reading)
            done += 1
            progress(done, total, "launches")
    return readings


R = TypeVar("R")


def metric(
    readings: Mapping[str, Sequence[R]], figure: Callable[[R], float], unit: Unit, better: Better = "lower"
) -> Metric:
    """The median of a figure over the launches, and against the other models round by round.

    Intervals lie between order statistics and assume nothing of the distribution (see `quantiles.ranks`).

    Args:
        readings: by the model's role: `model`, and `reference` and `baseline` where there are such.
        figure: of a launch, or of another round in which the models took turns.
        unit: of the figure.
        better: which way it improves.
    """
    figures = {role: [figure(reading) for reading in launches] for role, launches in readings.items()}
    ours = figures["model"]
    value = _median(ours)
    compared = {
        role: Comparison(
            value=_median(theirs).value,
            ratio=_median([one / other for one, other in zip(ours, theirs, strict=True)]),
            difference=_median([one - other for one, other in zip(ours, theirs, strict=True)]),
            method=f"{len(ours)} launches of each in turn",
            count=len(ours),
        )
        for role, theirs in figures.items()
        if role != "model"
    }
    named = {further(role): comparison for role, comparison in compared.items() if further(role)}
    reference, baseline = compared.get("reference"), compared.get("baseline")
    return Metric(value.value, unit, better, "timing", value, reference, baseline, named)


def _median(values: Sequence[float]) -> Estimate:
    ordered = sorted(values)
    low, high = ranks(len(ordered), 0.5)
    return Estimate(quantile(ordered, 0.5), ordered[low - 1], ordered[high - 1])


def resident() -> tuple[int, int]:
    """Bytes of this process that are in memory now, and the most that ever were; zeros where there is no `STATUS`."""
    if not STATUS.exists():
        return 0, 0
    lines = (line.partition(":") for line in STATUS.read_text("utf-8").splitlines())
    sizes = {name: int(value.split()[0]) * 1024 for name, _, value in lines if value.endswith(" kB")}
    return sizes["VmRSS"], sizes["VmHWM"]


def _main(folder: Path) -> None:
    import onnxruntime  # what it takes by itself is not the model's

    request = decode(Request, json.loads((folder / "request.json").read_bytes()))
    names = json.loads((folder / "names.json").read_bytes())
    feeds = {name: np.load(folder / f"{number}.npy", allow_pickle=False) for number, name in enumerate(names)}
    used = gpu_memory(request.target) if request.watched else None
    if request.watched:
        onnxruntime.set_default_logger_severity(INFORMATION)
    before, _ = resident()
    start = perf_counter()
    session = open_session(request.model, request.target)
    load = perf_counter() - start
    run = caller(session, feeds, bound=request.bound)
    start = perf_counter()
    run()
    first = perf_counter() - start
    for _ in range(request.runs - 1):
        run()
    held, peak = resident()
    gpu = None if used is None else (gpu_memory(request.target) or 0) - used
    (folder / "reading.json").write_text(json.dumps(encode(Reading(load, first, before, held, peak, gpu=gpu))), "utf-8")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
