"""Support for the architectures of `transformers`, stage by stage: the error of each result, or the refusal.

    python -m benchmarks.architectures                          every architecture and way to export it
    python -m benchmarks.architectures --only gemma2 bloom      these architectures
    python -m benchmarks.architectures --exporter torchscript   one exporter
    python -m benchmarks.architectures --work FOLDER            keep models in this folder, and continue from it

Each architecture is a model of two layers with made-up weights, see `benchmarks/families.py`. `convert/torch` exports
it, `optimize/simplify` simplifies the export, `optimize/transformer` fuses the simplified model, `optimize/float16`
converts the fused model, and `quantize/dynamic` and `quantize/static` quantize the simplified model. Each stage checks
its own result. Parameters are left at their defaults, except `dims` for models that take only some sizes, and the
tolerance of float16. A cell is the stage's largest absolute error, or the number of a refusal below the table.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from benchmarks.families import FAMILIES, export
from benchmarks.fusion import StageResult, Variant, headline, stage
from benchmarks.spent import machine, table
from orun.stages.convert import torch
from orun.stages.optimize import float16, simplify, transformer
from orun.stages.quantize import dynamic, static

WAYS = (("torchscript", 20), ("dynamo", 20))
STAGES: tuple[tuple[str, Any, str, dict[str, Any]], ...] = (  # name, kind, the stage before it, parameters
    ("simplify", simplify, "export", {}),
    ("fuse", transformer, "simplify", {}),
    ("float16", float16, "fuse", {"atol": 5e-2, "rtol": 5e-2}),
    ("dynamic int8", dynamic, "simplify", {}),
    ("static int8", static, "simplify", {}),
)
HEAD = ("architecture", "exporter", "attention", "export", *(name for name, *_ in STAGES), "attentions fused")


def variants(families: Sequence[str], exporters: Sequence[str]) -> list[Variant]:
    """Return every export of these families."""
    return [
        Variant(family, exporter, attention, opset)
        for family in families
        for exporter, opset in WAYS
        if exporter in exporters
        for attention in FAMILIES[family].implementations
    ]


def run(variant: Variant, work: Path) -> dict[str, StageResult]:
    """Return the result of every stage by name; stages after a refusal are left out."""
    dims = {"dims": FAMILIES[variant.family].dims}
    params = export(variant.family, variant.exporter, variant.attention, variant.opset)
    results = {"export": stage(torch, work / variant.name, params, {})}
    for name, kind, before, more in STAGES:
        source = results.get(before)
        if source is not None and not source.failure:
            folder = work / f"{variant.name}-{name.replace(' ', '-')}"
            results[name] = stage(kind, folder, {**more, **dims}, {"model": source.model.parent})
    return results


def row(variant: Variant, results: dict[str, StageResult], refusals: list[str]) -> list[str]:
    """Return a row of the table; new refusals are added to the list."""
    cells = [variant.family, variant.exporter, variant.attention]
    for name in ("export", *(name for name, *_ in STAGES)):
        result = results.get(name)
        if result is None:
            cells.append("")
        elif result.failure:
            refusal = f"{headline(result)}; {result.failure.partition('hint: ')[2]}"
            if refusal not in refusals:
                refusals.append(refusal)
            cells.append(f"refuses ({refusals.index(refusal) + 1})")
        else:
            cells.append(f"{result.metrics['max_abs_error'].value:.1e}")
    fused = results.get("fuse")
    if fused is None or fused.failure:
        return [*cells, ""]
    all_of_them, left = (int(fused.metrics[name].value) for name in ("attentions", "attentions_left"))
    return [*cells, f"{all_of_them - left} of {all_of_them}"]


def rows(work: Path, chosen: Sequence[Variant], refusals: list[str]) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    with chdir(work):
        for variant in chosen:
            cells = row(variant, run(variant, work), refusals)
            print(*cells, sep=" | ", file=sys.stderr, flush=True)
            yield cells


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    exporters = [exporter for exporter, _ in WAYS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="these architectures")
    parser.add_argument("--exporter", nargs="+", choices=exporters, default=exporters, help="these exporters")
    parser.add_argument("--work", type=Path, help="keep models in this folder, and continue from it")
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    refusals: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        work = (options.work or Path(folder)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        lines = list(rows(work, variants(options.only, options.exporter), refusals))
        print(machine(), table(list(HEAD), lines), sep="\n\n")
    for number, refusal in enumerate(refusals, 1):
        print(f"{number}. {refusal}")


if __name__ == "__main__":
    main()
