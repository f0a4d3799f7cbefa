"""Which attentions of nine families of transformers are fused, by orun and by others, from either exporter.

    python -m benchmarks.fusion                          every family and exporter
    python -m benchmarks.fusion --only bert t5           these families
    python -m benchmarks.fusion --work FOLDER            keep models there, and go on from what is there

Each family is a model of two layers with made-up weights, see `benchmarks/families.py`. orun exports it, checks the
export against PyTorch, and fuses it with `optimize/transformer`. The other columns fuse the same export: ONNX Runtime
as a session does it at its levels 2 and 99, its transformer optimizer, onnxscript's fusions for ONNX Runtime, and
Olive's pass where Olive is installed. A figure is the number of attentions that became one operator; it is followed by
what is wrong with the model, if anything: its outputs are compared with those of the export.
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

import orun
from benchmarks.families import FAMILIES, export
from benchmarks.spent import machine, table
from orun.record import RunResult, StageResult
from orun.stages.agreement import session
from orun.stages.domains import tidy_domains
from orun.stages.feeds import cases
from orun.stages.fusion.report import ATTENTION, count
from orun.stages.onnx_io import save
from orun.stages.ort_graph import optimized
from orun.stages.signature import inputs_of

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
    """One export of one family."""

    family: str
    exporter: str
    attention: str
    opset: int

    @property
    def name(self) -> str:
        """Its name in a pipeline."""
        return f"{self.family}-{self.exporter}-{self.attention}-{self.opset}"


def variants(families: Sequence[str]) -> list[Variant]:
    """Every export of these families."""
    return [Variant(family, *way) for family in families for way in WAYS]


def build(work: Path, chosen: Sequence[Variant]) -> RunResult:
    """Export and fuse with orun; what is in the folder's store already is not done again."""
    shutil.copy(Path(__file__).with_name("families.py"), work)
    stages: dict[str, Any] = {}
    for one in chosen:
        parameters = export(one.family, one.exporter, one.attention, one.opset)
        stages[one.name] = {"uses": "convert/torch", "with": parameters}
        stages[f"{one.name}-fused"] = {"uses": "optimize/transformer", "needs": one.name}
    path = work / "fusion.yaml"
    path.write_text(json.dumps({"name": "fusion", "stages": stages}), "utf-8")
    return orun.run(path, store=work / "store", keep_going=True, jobs=1)


def by_session(level: str) -> Callable[[Path, str], onnx.ModelProto]:
    """What a session of ONNX Runtime makes of a model at a level."""
    return lambda path, _: optimized(path, level)


def by_optimizer(path: Path, family: str) -> onnx.ModelProto:
    """ONNX Runtime's transformer optimizer, told what it asks for."""
    from onnxruntime.transformers.optimizer import optimize_model

    found = optimize_model(str(path), MODEL_TYPES.get(family, "bert"), HEADS, WIDTH, opt_level=1)
    model: onnx.ModelProto = found.model
    return model


def by_onnxscript(path: Path, _: str) -> onnx.ModelProto:
    """The fusions for ONNX Runtime of onnxscript."""
    import onnx_ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    model, _counts = optimize_for_ort(onnx_ir.load(path))
    return onnx_ir.to_proto(model)


def by_olive(path: Path, family: str) -> onnx.ModelProto:
    """Olive's OrtTransformersOptimization, told what it asks for."""
    from olive.workflows import run  # type: ignore[import-not-found]  # it is compared where it is installed

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
    """How many attentions a method fuses, and what is wrong with what it makes."""
    try:
        model = method(source, family)
    except Exception as error:  # noqa: BLE001 - a rival may fail in any way, and that is its result
        return type(error).__name__
    tidy_domains(model)
    found = count(model)
    fused = str(sum(found[name] for name in ATTENTION))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "model.onnx")
        save(model, path)
        try:
            off = difference(source, path)
        except Exception:  # noqa: BLE001 - the same
            return f"{fused}, does not run"
    return fused if off <= TOLERANCE else f"{fused}, off by {off:.1g}"


def difference(source: Path, path: Path) -> float:
    """Largest absolute difference between two models on inputs of several shapes, with masks among them."""
    model = onnx.load(source)
    outputs = [output.name for output in model.graph.output]
    before, after = session(source, outputs), session(path, outputs)
    feeds = [case.feed for case in cases(inputs_of(model), {}, 0)]
    pairs = (pair for feed in feeds for pair in zip(before(feed), after(feed), strict=True))
    return max(float(np.abs(right - value).max()) for right, value in pairs)


def row(one: Variant, exported: StageResult, fused: StageResult, rivals: Sequence[str]) -> list[str]:
    """A line of the table."""
    head = [one.family, one.exporter, one.attention, str(one.opset), str(FAMILIES[one.family].attentions)]
    if exported.outcome == "failed":
        return [*head, *([""] * (len(rivals) + 2)), "not exported"]
    source = Path(exported.out, "model.onnx")
    others = [judged(source, one.family, RIVALS[name]) for name in rivals]
    if fused.outcome == "failed":
        return [*head, *others, "0", "", fused.failure.what if fused.failure else ""]
    counts = {name.removeprefix("fused."): int(metric.value) for name, metric in fused.metrics.items()}
    made = ", ".join(f"{name} {counts[name]}" for name in counts if name in OPERATORS and counts[name])
    ours = sum(counts[name] for name in ATTENTION)
    return [*head, *others, str(ours), f"{fused.metrics['max_abs_error'].value:.1e}", made]


OPERATORS = (
    *ATTENTION, "EmbedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
    "RotaryEmbedding", "BiasGelu", "FastGelu", "QuickGelu",
)  # fmt: skip


def rows(work: Path, chosen: Sequence[Variant], rivals: Sequence[str]) -> Iterator[list[str]]:
    """The table; rivals that write where they are run write into the folder."""
    result = build(work, chosen)
    with chdir(work):
        for one in chosen:
            yield row(one, result[one.name], result[f"{one.name}-fused"], rivals)
            print(f"{one.name} done", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="these families")
    parser.add_argument("--work", type=Path, help="keep models in this folder, and go on from what is there")
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
