"""Accuracy of `orun blame`: faults planted into MiniLM one at a time, with the answer and its time.

    python -m benchmarks.blame
    python -m benchmarks.blame --only fusion slow

The faults are a layer that int8 treats badly, a wrong fusion and a slow place. A fourth case has no planted fault: the
natural loss of static int8. The answer is printed whole, with whether it names the right stage and node.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import orun
from benchmarks import blame_faults
from orun.blame.blame import blame, find_requests
from orun.blame.diagnosis import Diagnosis
from orun.core.events import Event, StageStarted
from orun.report.gates import why

ROOT = Path(__file__).parents[1]
HEAD = """
targets:
  one: {providers: [CPUExecutionProvider], session: {intra_op_num_threads: 1}}
stages:
  export:
    uses: convert/torch
    with:
      model: minilm.py:load
      inputs:
        input_ids: {shape: [batch, sequence], dtype: int64, high: 30521}
        attention_mask: {shape: [batch, sequence], dtype: int64, fill: mask}
        token_type_ids: {shape: [batch, sequence], dtype: int64, high: 1}
      outputs: [embedding]
      exporter: torchscript
      dims: {sequence: [2, 33]}
  simplify: {uses: optimize/simplify, needs: export}
"""
ACCURACY = """
  accuracy:
    uses: measure/accuracy
    needs: {model: MODEL, reference: export}
    with: {dataset: blame_faults.py:texts, metrics: [cosine], target: one, samples: 40}
    gate: {cosine.min: {min: 0.97}}
"""


@dataclass(frozen=True)
class Fault:
    """A planted fault: the stages with it, and the stage and node that must be named; no node for a natural loss."""

    stages: str
    culprit: str
    node: str


PYTHON = "uses: optimize/python, needs: simplify, with: {function: blame_faults.py:"
FAULTS = {
    "layer": Fault(
        f"  edit: {{{PYTHON}uneven, atol: 1e-3}}}}\n  int8: {{uses: quantize/dynamic, needs: edit}}\n"
        + ACCURACY.replace("MODEL", "int8"),
        "int8",
        blame_faults.UNEVEN,
    ),
    "fusion": Fault(
        f"  fuse: {{{PYTHON}fuse_wrongly, check: false}}}}\n  int8: {{uses: quantize/dynamic, needs: fuse}}\n"
        + ACCURACY.replace("MODEL", "int8"),
        "fuse",
        blame_faults.WRONG,
    ),
    "slow": Fault(
        f"  edit: {{{PYTHON}make_slow}}}}\n"
        "  latency:\n    uses: measure/latency\n    needs: {model: edit, reference: export}\n"
        "    with: {target: one, shape: {sequence: 64}, time: 10s}\n    gate: {speedup: {min: 0.9}}\n",
        "edit",
        "slow_0",
    ),
    "static int8": Fault(
        "  int8:\n    uses: quantize/static\n    needs: simplify\n"
        "    with: {dataset: blame_faults.py:texts, samples: 16, op_types: [MatMul]}\n"
        + ACCURACY.replace("MODEL", "int8"),
        "int8",
        "",
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Plant each fault and print the answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), help="only these faults")
    parser.add_argument("--seconds", type=float, default=600, help="time for each diagnosis")
    parser.add_argument("--verbose", action="store_true", help="say which stages run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("minilm.py", "docs.py"):
            shutil.copy(ROOT / "pipelines" / name, folder)
        shutil.copy(blame_faults.__file__, folder)
        for name in options.only:
            _try(Path(folder), name, options.seconds, verbose=options.verbose)


def _try(folder: Path, name: str, seconds: float, *, verbose: bool) -> None:
    fault = FAULTS[name]
    file = folder / f"{name.replace(' ', '-')}.yaml"
    file.write_text(HEAD + fault.stages, encoding="utf-8")
    pipeline = orun.load(file)
    result = orun.run(pipeline, store=folder / "store")
    for failure in (stage.failure for stage in result.stages if stage.failure):
        print(f"{name}: {failure.what} {failure.why}")
    requests = list(find_requests(pipeline, result))
    if not requests:
        print(f"{name}: MISSED, no gate failed: {', '.join(map(why, result.verdicts))}")
    for request in requests:
        began, spent = monotonic(), _spent()
        diagnosis = blame(request, seconds, folder / "store", _print_stage if verbose else lambda _: None)
        took = f"{monotonic() - began:.0f} s, {_spent() - spent:.0f} s of CPU"
        stopped = f"\n  {diagnosis.stopped}" if diagnosis.stopped else ""
        print(f"{name}: {_verdict(diagnosis, fault)} in {took}\n  {diagnosis.sentence}{stopped}\n", flush=True)


def _spent() -> float:
    """Return the CPU seconds of this process and its ended child processes."""
    return sum(os.times()[:4])


def _verdict(diagnosis: Diagnosis, fault: Fault) -> str:
    if not fault.node:
        return "natural"
    nodes = {node for place in diagnosis.places[:1] for node in (place.node, *place.nodes)}
    return "named" if diagnosis.culprit == fault.culprit and fault.node in nodes else "MISSED"


def _print_stage(event: Event) -> None:
    if isinstance(event, StageStarted):
        print(f"  {event.stage}", flush=True)


if __name__ == "__main__":
    main()
