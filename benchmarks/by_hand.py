"""Script that does the same as `pipelines/bert.yaml` without orun.

    python -m benchmarks.by_hand OUT                 OUT is the folder of the release
    python -m benchmarks.by_hand OUT --launches 0    without latency and release, like `orun --to accuracy`

One process exports, simplifies, fuses and quantizes MiniLM with the same libraries and options. It checks every model,
measures accuracy and latency, and writes a release. There is no store, no key and no gate, and nothing can be resumed.
Later steps use the results of earlier ones in memory: all models are compared with the outputs of one export.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxsim
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from orun.core.targets import Target
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.dataset import Values, count, iter_batches
from orun.measure.latency import measurement
from orun.measure.latency.metrics import build_metrics
from orun.measure.workers import WorkerProcess
from orun.stages._graph.feeds import Case, Input, make_cases
from orun.stages._graph.ort_graph import IN_THE_WAY
from pipelines import docs, minilm

Floats = NDArray[np.float32]
Answers = Sequence[Floats]

INPUTS = (
    Input("input_ids", "int64", ("batch", "sequence"), 0, 30521),
    Input("attention_mask", "int64", ("batch", "sequence"), fill="mask"),
    Input("token_type_ids", "int64", ("batch", "sequence"), 0, 1),
)
LENGTHS = {"sequence": (2, 33, 128)}  # lengths of the check of the export
HEADS, HIDDEN = 12, 384
SEQUENCE = 128  # length of the text that is timed
MODEL = "model.onnx"


def export(path: Path) -> None:
    """Export by TorchScript and check the model against PyTorch."""
    module = minilm.load().eval()
    tries = tuple(make_cases(INPUTS, LENGTHS, 0))
    with torch.inference_mode():
        expected = [module(*(torch.tensor(value) for value in case.feed.values())).numpy() for case in tries]
        example = tuple(torch.tensor(value) for value in tries[1].feed.values())
        axes = {item.name: {0: "batch", 1: "sequence"} for item in INPUTS} | {"embedding": {0: "batch"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                example,
                path,
                dynamo=False,
                opset_version=20,
                input_names=[item.name for item in INPUTS],
                output_names=["embedding"],
                dynamic_axes=axes,
            )
    onnx.checker.check_model(path)
    compare(expected, answers(path, tries), 1e-4)


def simplify(source: Path, path: Path) -> None:
    """Simplify with onnxsim, without the pass that hides patterns from the fusions."""
    skipped = ["fuse_matmul_add_bias_into_gemm_batched"]
    onnxsim.simplify(str(source), output_path=str(path), skipped_optimizers=skipped, certify=False)
    onnx.checker.check_model(path)


def fuse(source: Path, path: Path) -> None:
    """Fuse attention, layer norms, GELU and embeddings."""
    teach_norm()
    options = FusionOptions("bert")
    options.use_raw_attention_mask(True)
    fused = optimize_by_fusion(optimized(source), "bert", HEADS, HIDDEN, options).model
    onnx.save(fused, path)
    onnx.checker.check_model(path)


def teach_norm() -> None:
    """Teach the optimizer's shape inference ReduceL2 of opset 18; without it, inference of the whole model fails."""
    module: Any = importlib.import_module(
        "shape_infer_helper"
    )  # onnxruntime.transformers puts its folder onto the path
    known = module.SymbolicShapeInferenceHelper

    class Taught(known):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.dispatcher_["ReduceL2"] = self._infer_ReduceSum

    module.SymbolicShapeInferenceHelper = Taught


def quantize(source: Path, path: Path) -> None:
    """Quantize the weights to int8."""
    model = optimized(source)
    del model.graph.value_info[:]
    quantize_dynamic(
        model,
        path,
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    onnx.checker.check_model(path)


def optimized(path: Path) -> onnx.ModelProto:
    """Return a model after ONNX Runtime's basic optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = f"{path}.basic"
    onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"], disabled_optimizers=list(IN_THE_WAY))
    return onnx.load(options.optimized_model_filepath)


def session(path: Path) -> Any:
    """Open a session on one thread of the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def answers(path: Path, tries: Sequence[Case]) -> Answers:
    """Return a model's embeddings of each case."""
    model = session(path)
    return [model.run(None, dict(case.feed))[0] for case in tries]


def compare(expected: Answers, actual: Answers, atol: float) -> None:
    """Fail if a model differs from its reference by more than `atol` and a thousandth."""
    for right, value in zip(expected, actual, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-3, atol=atol)


def accuracy(paths: Sequence[Path]) -> dict[str, float]:
    """Return the cosine of the first model's embeddings to the second's, and the retrieval metrics of the first."""
    dataset = docs.pairs()
    assert dataset.candidates is not None  # noqa: S101 - for mypy: this dataset has them
    models = [session(path) for path in paths]
    queries, rests = (embed(models, inputs) for inputs in (dataset.inputs, dataset.candidates))
    cosine = np.concatenate([(ours * theirs).sum(axis=1) for ours, theirs in (queries, rests)])
    scores = queries[0] @ rests[0].T
    rank = (scores >= np.diagonal(scores)[:, None]).sum(axis=1)
    return {
        "cosine.mean": float(cosine.mean()),
        "cosine.min": float(cosine.min()),
        "recall_at_1": float((rank == 1).mean()),
        "mrr": float((1 / rank).mean()),
    }


def embed(models: Sequence[Any], inputs: Mapping[str, Values]) -> list[Floats]:
    """Return each model's embeddings of all texts, one text at a time, `[n, 384]`."""
    embeddings: list[Floats] = [np.empty((count(inputs), HIDDEN), np.float32) for _ in models]
    for batch in iter_batches(inputs, 1):
        for model, rows in zip(models, embeddings, strict=True):
            rows[batch.examples] = model.run(None, dict(batch.feed))[0]
    return embeddings


def time(paths: Sequence[Path], launches: int) -> dict[str, float]:
    """Return the latency of the first model, and its speed-up over the second."""
    case = next(iter(make_cases(INPUTS, {"batch": (1,), "sequence": (SEQUENCE,)}, 0)))
    feeds = {**case.feed, "attention_mask": np.ones((1, SEQUENCE), np.int64)}
    target = Target("cpu", session={"intra_op_num_threads": 1})
    subjects = {
        name: BenchmarkCase(path, target, feeds) for name, path in zip(("model", "reference"), paths, strict=True)
    }
    budget = measurement.Budget(time=20, resolution=0.05, launches=(launches, launches), samples=60, warmup=0.1)
    metrics = build_metrics(measurement.measure(subjects, budget, 0, lambda *_: None, WorkerProcess), 1)
    return {name: metrics[name].value for name in ("p50", "cpu", "speedup")}


def release(path: Path, folder: Path, figures: dict[str, float]) -> None:
    """Write the model with its figures and a manifest of digests."""
    folder.mkdir(parents=True)
    shutil.copyfile(path, folder / MODEL)
    (folder / "measurements.json").write_text(json.dumps(figures, indent=2), "utf-8")
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps(digests, indent=2), "utf-8")


def build(work: Path, out: Path, launches: int) -> dict[str, float]:
    """Do all steps.

    Args:
        work: an empty folder for the models.
        out: folder of the release.
        launches: launches of the latency measurement; 0 to leave it and the release out.
    """
    exported, simplified, fused, int8 = (work / f"{name}.onnx" for name in ("export", "simplify", "fuse", "int8"))
    tries = tuple(make_cases(INPUTS, {}, 0))
    export(exported)
    expected = answers(exported, tries)
    simplify(exported, simplified)
    compare(expected, answers(simplified, tries), 1e-5)
    fuse(simplified, fused)
    compare(expected, answers(fused, tries), 1e-4)
    quantize(fused, int8)
    if not all(np.isfinite(value).all() for value in answers(int8, tries)):
        raise ArithmeticError("the quantized model yields values that are not finite")
    figures = accuracy((int8, exported))
    if launches:
        figures |= time((int8, exported), launches)
        release(int8, out, figures)
    return figures


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="The steps of pipelines/bert.yaml, written by hand.")
    parser.add_argument("out", type=Path, help="folder of the release, which must not exist")
    parser.add_argument("--launches", type=int, default=3, help="of both models for the latency, 3 at least; 0: none")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="by-hand-") as work:
        for name, value in build(Path(work), arguments.out, arguments.launches).items():
            print(f"{name} {value:.4g}")


if __name__ == "__main__":
    main()
