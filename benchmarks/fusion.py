"""Fused attentions of 28 families of transformers, by orun and by other tools, from both exporters.

    python -m benchmarks.fusion                          every family and exporter
    python -m benchmarks.fusion --only bert t5           these families
    python -m benchmarks.fusion --work FOLDER            keep models in this folder, and continue from it

Each family is a model of two layers with made-up weights, see `benchmarks/families.py`. orun exports it, checks the
export against PyTorch, and fuses it with `optimize/transformer`. The other columns fuse the same export: a session of
ONNX Runtime at levels 2 and 99, ONNX Runtime's transformer optimizer, onnxscript's fusions for ONNX Runtime, and
Olive's pass if Olive is installed. A figure is the number of attentions that became one operator. Outputs are compared
with those of the export; a problem follows the figure.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.families import FAMILIES, export
from benchmarks.spent import machine, table
from benchmarks.stage_context import make_context
from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.domains import tidy_domains
from orun.stages._graph.feeds import make_cases
from orun.stages._graph.io import save
from orun.stages._graph.ort_graph import optimize
from orun.stages._graph.sessions import open_model
from orun.stages._graph.signature import build_inputs
from orun.stages.contract import MODEL
from orun.stages.convert import torch
from orun.stages.optimize import transformer
from orun.stages.optimize._fusion.census import ATTENTION, count_operators
from orun.stages.params import build as parameters

# Exporter, attention and operator set: from 23 on PyTorch exports the standard's own Attention.
WAYS = (
    ("torchscript", "eager", 20),
    ("torchscript", "sdpa", 20),
    ("dynamo", "eager", 20),
    ("dynamo", "sdpa", 20),
    ("dynamo", "sdpa", 23),
)
MODEL_TYPES = {"gpt2": "gpt2", "vit": "vit", "t5": "t5", "whisper": "bart", "clip": "clip"}  # of ONNX Runtime
HEADS, WIDTH = 4, 32
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Variant:
    """An export of a family."""

    family: str
    exporter: str
    attention: str
    opset: int

    @property
    def name(self) -> str:
        """Name of its model's folder."""
        return f"{self.family}-{self.exporter}-{self.attention}-{self.opset}"


@dataclass(frozen=True)
class StageResult:
    """Result of a stage: its model and metrics, or the whole message of its failure."""

    model: Path
    metrics: Mapping[str, Metric]
    failure: str = ""


def variants(families: Sequence[str]) -> list[Variant]:
    """Return every export of these families."""
    return [
        Variant(family, exporter, attention, opset)
        for family in families
        for exporter, attention, opset in WAYS
        if attention in FAMILIES[family].implementations
    ]


def stage(kind: Any, folder: Path, params: Mapping[str, Any], inputs: Mapping[str, Path]) -> StageResult:
    """Run a kind in this process, where PyTorch's exporter warms up once; reuse an earlier result in the folder."""
    output, record = folder / "output", folder / "result.json"
    if record.exists():
        kept = json.loads(record.read_text("utf-8"))
        metrics = {name: Metric(value) for name, value in kept["metrics"].items()}
        return StageResult(output / MODEL, metrics, kept["failure"])
    shutil.rmtree(folder, ignore_errors=True)
    working_folder = folder / "work"
    working_folder.mkdir(parents=True)
    output.mkdir()
    context = make_context(folder.name, Path(__file__).parent, output, inputs)
    failure, measured = "", {}
    try:
        with chdir(working_folder):
            measured = kind.run(context, parameters(kind.Params, params))
    except StageFailed as error:
        failure = str(error)
    metrics = {name: metric.value for name, metric in measured.items()}
    record.write_text(json.dumps({"metrics": metrics, "failure": failure}), "utf-8")
    return StageResult(output / MODEL, measured, failure)


def headline(result: StageResult) -> str:
    """Return the first line of a failure."""
    return result.failure.partition("\n")[0]


def by_session(level: str) -> Callable[[Path, str], onnx.ModelProto]:
    """Return a method that fuses as a session of ONNX Runtime does at a level."""
    return lambda path, _: optimize(path, level)


def by_optimizer(path: Path, family: str) -> onnx.ModelProto:
    """Fuse with ONNX Runtime's transformer optimizer, with the heads and width that it needs."""
    from onnxruntime.transformers.optimizer import optimize_model

    fused = optimize_model(str(path), MODEL_TYPES.get(family, "bert"), HEADS, WIDTH, opt_level=1)
    model: onnx.ModelProto = fused.model
    return model


def by_onnxscript(path: Path, _: str) -> onnx.ModelProto:
    """Fuse with onnxscript's fusions for ONNX Runtime."""
    import onnx_ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    model, _counts = optimize_for_ort(onnx_ir.load(path))
    return onnx_ir.to_proto(model)


def by_olive(path: Path, family: str) -> onnx.ModelProto:
    """Fuse with Olive's OrtTransformersOptimization, with the heads and width that it needs."""
    from olive.workflows import run  # type: ignore[import-not-found]  # optional

    fuse = {"model_type": MODEL_TYPES.get(family, "bert"), "num_heads": HEADS, "hidden_size": WIDTH}
    with tempfile.TemporaryDirectory() as folder:
        run(
            {
                "input_model": {"type": "ONNXModel", "model_path": str(path)},
                "passes": {"fuse": {"type": "OrtTransformersOptimization", **fuse}},
                "output_dir": f"{folder}/output",
                "cache_dir": f"{folder}/cache",
                "log_severity_level": 4,
            }
        )
        return onnx.load(f"{folder}/output/model.onnx")


RIVALS: Mapping[str, Callable[[Path, str], onnx.ModelProto]] = {
    "session, level 2": by_session("extended"),
    "level 99": by_session("all"),
    "its optimizer": by_optimizer,
    "onnxscript": by_onnxscript,
    "Olive": by_olive,
}


def judged(source: Path, family: str, method: Callable[[Path, str], onnx.ModelProto]) -> str:
    """Return the number of attentions that a method fuses, and any problem of its result."""
    try:
        model = method(source, family)
    except Exception as error:  # noqa: BLE001 - any failure of a rival is its result
        return type(error).__name__
    tidy_domains(model)
    counts = count_operators(model)
    fused = str(sum(counts[name] for name in ATTENTION))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "model.onnx")
        save(model, path)
        try:
            off = difference(source, path, FAMILIES[family].dims)
        except Exception:  # noqa: BLE001 - as above
            return f"{fused}, does not run"
    return fused if off <= TOLERANCE else f"{fused}, off by {off:.1g}"


def difference(source: Path, path: Path, dims: Mapping[str, Sequence[int]]) -> float:
    """Return the largest absolute difference between two models on inputs of several shapes, masks included."""
    model = onnx.load(source)
    outputs = [output.name for output in model.graph.output]
    before, after = open_model(source, outputs), open_model(path, outputs)
    feeds = [case.feed for case in make_cases(build_inputs(model), dims, 0)]
    pairs = (pair for feed in feeds for pair in zip(before(feed), after(feed), strict=True))
    return max(float(np.abs(right - value).max()) for right, value in pairs)


def row(variant: Variant, work: Path, rivals: Sequence[str]) -> list[str]:
    """Return a row of the table."""
    family = FAMILIES[variant.family]
    head = [variant.family, variant.exporter, variant.attention, str(variant.opset), str(family.attentions)]
    params = export(variant.family, variant.exporter, variant.attention, variant.opset)
    exported = stage(torch, work / variant.name, params, {})
    if exported.failure:
        return [*head, *([""] * (len(rivals) + 2)), exported.failure]
    dims = {"dims": family.dims}
    fused = stage(transformer, work / f"{variant.name}-fused", dims, {"model": exported.model.parent})
    compared = [judged(exported.model, variant.family, RIVALS[name]) for name in rivals]
    if fused.failure:
        return [*head, *compared, "0", "", headline(fused)]
    counts = {name.removeprefix("fused."): int(metric.value) for name, metric in fused.metrics.items()}
    operators = ", ".join(f"{name} {counts[name]}" for name in OPERATORS if counts[name])
    ours = sum(counts[name] for name in ATTENTION)
    return [*head, *compared, str(ours), f"{fused.metrics['max_abs_error'].value:.1e}", operators]


OPERATORS = (
    *ATTENTION, "EmbedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
    "RotaryEmbedding", "BiasGelu", "FastGelu", "QuickGelu",
)  # fmt: skip


def rows(work: Path, chosen: Sequence[Variant], rivals: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of the table; rivals that write into their working folder write into `work`."""
    with chdir(work):
        for variant in chosen:
            cells = row(variant, work, rivals)
            print(*cells, sep=" | ", file=sys.stderr)
            yield cells


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="these families")
    parser.add_argument("--work", type=Path, help="keep models in this folder, and continue from it")
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    os.environ["ORT_DISABLE_TELEMETRY"] = os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
    rivals = [name for name in RIVALS if name != "Olive" or importlib.util.find_spec("olive")]
    head = [
        "family",
        "exporter",
        "attention",
        "opset",
        "attentions",
        *rivals,
        "orun",
        "max abs error",
        "what orun fused",
    ]
    with tempfile.TemporaryDirectory() as folder:
        work = (options.work or Path(folder)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        print(machine(), table(head, list(rows(work, variants(options.only), rivals))), sep="\n\n")


if __name__ == "__main__":
    main()
