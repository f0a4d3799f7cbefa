"""Every kind on a model of more than 2 GB: whether it works or refuses, with its time and memory.

    python -m benchmarks.big                              every kind of `CASES`, the cheap ones first
    python -m benchmarks.big --only 'optimize/*'          these kinds, and those that they need
    python -m benchmarks.big --rows FILE                  save each result in this file, and continue from it

The model of `pipelines/big.py` is written once to a temporary folder. Each kind then runs in its own process, with the
checks of a stage's process on its output. `works`: it ran, and its result is valid. `refuses`: it ended with an error
for the user. `fails`: it ended in another way, or exceeded the limits of time or memory. Memory is the peak of the
resident memory of all its processes together; seconds are wall time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.spent import ROOT, machine, table

CODE = ROOT / "benchmarks"  # folder of the code that parameters name
GIB = 2**30
PAUSE = 0.2  # seconds between two looks at the memory
LAYERS, WIDTH = 33, 4096  # matrices of 64 MiB: 2.2 GB, a little more than a protobuf message can hold
DIMS = {"batch": [1, 2]}
MODEL = "model"  # folder of the model, and its name among the inputs of a case
PAGE = os.sysconf("SC_PAGE_SIZE")
SESSION = 3  # index of the session among the fields after the name in /proc/*/stat


@dataclass(frozen=True)
class Limits:
    """Limits of a kind: seconds, and GiB."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class Case:
    """Parameters and inputs of a kind: the model, or the result of another kind."""

    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=lambda: {"model": MODEL})


@dataclass(frozen=True)
class Row:
    """Result of a kind."""

    kind: str
    verdict: str
    why: str
    seconds: float
    peak: float  # GiB


CHECKED = Case({"dims": DIMS})
WITH_REFERENCE = {"model": MODEL, "reference": MODEL}
CASES: Mapping[str, Case] = {
    "compile/mobile": CHECKED,
    "measure/size": Case(),
    "convert/onnx": Case({"path": "model/model.onnx"}, {}),
    "release/metadata": Case({"doc_string": "Wide."}),
    "release/card": Case(),
    "release/triton": Case({"name": "big"}),
    "release/bundle": Case(),
    "release/publish": Case({"to": "published"}, {"bundle": "release/bundle"}),
    "release/serve-check": Case({}, {"bundle": "release/bundle"}),
    "check/model": Case(),
    "check/coverage": Case(),
    "convert/opset": Case({"version": 23, "dims": DIMS}),
    "quantize/qat": CHECKED,
    "optimize/shapes": Case({"fix": {"batch": 1}}),
    "optimize/graph": CHECKED,
    "optimize/float16": CHECKED,
    "optimize/layout": CHECKED,
    "optimize/prune": CHECKED,
    "optimize/low-rank": Case({"method": "plain", "size": 0.9, "dims": DIMS}),
    "optimize/edit": Case({"edits": [{"rename": {"x": "rows"}}], "dims": DIMS}),
    "optimize/python": Case({"function": "big_models.py:unchanged", "dims": DIMS}),
    "optimize/transformer": CHECKED,
    "quantize/dynamic": CHECKED,
    "quantize/static": Case({"samples": 2}),
    "quantize/weights": CHECKED,
    "measure/accuracy": Case({"metrics": ["cosine"], "samples": 4}, WITH_REFERENCE),
    "measure/startup": Case({"shape": {"batch": 1}}),
    "measure/memory": Case({"shape": {"batch": 1}, "runs": 1}),
    "measure/load": Case({"shape": {"batch": 1}, "clients": 1}),
    "measure/profile": Case({"shape": {"batch": 1}, "launches": 2, "runs": 3}),
    "measure/latency": Case({"shape": {"batch": 1}, "max_launches": 3}),
    "quantize/debug": Case({"samples": 1, "trials": 4}, {"model": "quantize/dynamic", "reference": MODEL}),
    "convert/torch": Case(
        {
            "model": "big_models.py:wide",
            "inputs": {"x": {"shape": ["batch", WIDTH]}},
            "outputs": ["y"],
            "dims": DIMS,
        },
        {},
    ),
    "optimize/simplify": CHECKED,
    "quantize/tune": Case(
        {
            "dataset": "big_models.py:rows",
            "metric": "cosine.mean",
            "at_least": 0.9,
            "samples": 2,
            "trials": 3,
            "time": 120.0,
            "shape": {},
        }
    ),
    "convert/sklearn": Case({"model": "big_models.py:linear", "data": "big_models.py:rows"}, {}),
    "convert/tensorflow": Case({"model": "big_models.py:dense", "dims": DIMS}, {}),
}


def run(kind: str, folder: Path) -> None:
    """Run a kind as a stage's process does; write how it ended to `outcome.json` in its folder."""
    from orun.errors import OrunError
    from orun.stages.ensure import check_output
    from orun.stages.registry import import_kind

    case, work = CASES[kind], place(folder, kind)
    (work / "provenance.json").write_text('{"pipeline": "big", "stages": []}', "utf-8")
    inputs = {
        port: folder / MODEL if name == MODEL else place(folder, name) / "output" for port, name in case.inputs.items()
    }
    try:
        with contextlib.chdir(work / "work"):
            execute(kind, case, inputs, work, folder)
        check_output(kind, import_kind(kind).SPEC, work / "output", inputs)
    except OrunError as error:
        outcome = {"verdict": "refuses", "why": f"{error.problem}: {error.why}" if error.why else error.problem}
    except Exception as error:  # any exception that is no message for a user
        logging.getLogger(kind).exception("it failed")
        outcome = {"verdict": "fails", "why": f"{type(error).__name__}: {error}"}
    else:
        outcome = {"verdict": "works", "why": ""}
    (work / "outcome.json").write_text(json.dumps(outcome), "utf-8")


def execute(kind: str, case: Case, inputs: Mapping[str, Path], work: Path, folder: Path) -> None:
    """Call the kind with its context."""
    from benchmarks.stage_context import make_context
    from orun.stages.params import build
    from orun.stages.registry import import_kind

    module = import_kind(kind)
    params = {name: str(folder / value) if name in ("path", "to") else value for name, value in case.params.items()}
    context = make_context(kind, CODE, work / "output", inputs, work / "provenance.json")
    module.run(context, build(module.Params, params))


def place(folder: Path, kind: str) -> Path:
    """Return the folder of a kind's result."""
    return folder / kind.replace("/", "-")


def watched(kind: str, folder: Path, limits: Limits) -> Row:
    """Run a kind in its own process, and end the process when it exceeds a limit."""
    work = place(folder, kind)
    for name in ("output", "work"):
        (work / name).mkdir(parents=True)
    start, peak, verdict, why = time.perf_counter(), 0, "", ""
    with (work / "log.txt").open("wb") as log:
        command = [sys.executable, "-m", "benchmarks.big", "--run", kind, str(folder)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            if peak > limits.memory * GIB:
                verdict, why = "fails", f"more than {limits.memory:g} GiB"
            elif time.perf_counter() - start > limits.seconds:
                verdict, why = "fails", f"not done in {limits.seconds:g} s"
            if verdict:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(PAUSE)
    seconds = time.perf_counter() - start
    if not verdict:
        outcome = work / "outcome.json"
        ending = json.loads(outcome.read_bytes()) if outcome.exists() else {}
        verdict, why = ending.get("verdict", "fails"), ending.get("why", f"exit status {process.returncode}")
    if verdict == "fails":
        sys.stderr.write((work / "log.txt").read_text("utf-8", errors="replace")[-3000:])
    return Row(kind, verdict, why, seconds, peak / GIB)


def resident(session: int) -> int:
    """Return the resident bytes of all processes of a session; shared pages count for each process."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a process may end meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[SESSION]) == session:
                total += int((stat.parent / "statm").read_text().split()[1]) * PAGE
    return total


def rows(kinds: Sequence[str], folder: Path, limits: Limits) -> Iterator[Row]:
    """Run kinds one after another; remove each result that no other kind needs."""
    needed = {name for kind in kinds for name in CASES[kind].inputs.values()}
    for kind in kinds:
        yield watched(kind, folder, limits)
        if kind not in needed:
            shutil.rmtree(place(folder, kind))


def build_model(folder: Path) -> None:
    """Write the model of `pipelines/big.py` into the folder `model`."""
    sys.path.insert(0, str(ROOT / "pipelines"))
    import big  # type: ignore[import-not-found]  # beside the pipelines

    (folder / MODEL).mkdir()
    big.write(folder / MODEL, LAYERS, WIDTH)


def report(results: Sequence[Row]) -> str:
    """Return the table of all results."""
    head = ["kind", "over 2 GB", "says", "s", "GiB"]
    lines = [[f"`{row.kind}`", row.verdict, row.why, f"{row.seconds:.0f}", f"{row.peak:.1f}"] for row in results]
    return table(head, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the kinds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="kinds whose names match this pattern")
    parser.add_argument("--seconds", type=float, default=600, help="time that a kind may take")
    parser.add_argument("--memory", type=float, default=16, help="GiB that a kind may hold")
    parser.add_argument("--rows", type=Path, help="a file of results, one a line, to go on from")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        run(options.run[0], Path(options.run[1]))
        return
    kept = options.rows.read_text("utf-8").splitlines() if options.rows and options.rows.exists() else []
    results = [Row(**json.loads(line)) for line in kept]
    done = {row.kind for row in results}
    wanted = {kind for kind in CASES if fnmatch(kind, options.only) and kind not in done}
    wanted |= {name for kind in wanted for name in CASES[kind].inputs.values() if name in CASES}
    kinds = [kind for kind in CASES if kind in wanted]
    with tempfile.TemporaryDirectory() as name:
        build_model(Path(name))
        for row in rows(kinds, Path(name), Limits(options.seconds, options.memory)):
            results.append(row)
            print(f"{row.kind}: {row.verdict} {row.why} {row.seconds:.0f} s {row.peak:.1f} GiB", file=sys.stderr)
            if options.rows:
                with options.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
    print(f"{machine()}\n\n{report(results)}")


if __name__ == "__main__":
    main()
