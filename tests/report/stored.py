"""A run whose artifacts are in a store, for the sections of the report that read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from orun.core.metrics import Estimate, Metric
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import replace
from orun.stages.release._manifest import write_json, write_manifest
from orun.store import Store
from tests.facts import components, reasons_of

from .support import ACCURACY, COSINE, LATENCY, NOW, P50, PASSED, SPEEDUP

INPUT = "x"
LAYER = "/encoder/layer.11/attention/self/query/MatMul"
FRONT = [
    {"method": "dynamic", "options": [["per_channel", True]], "place": "cpu", "fused": True, "kept": [["n"]],
     "accuracy": 0.993, "time": 0.42, "size": 24_000},
    {"method": "float", "options": [], "place": "cpu", "fused": False, "kept": [], "accuracy": 1.0, "time": 1.0,
     "size": 90_000},
    {"method": "static", "options": [], "place": "cpu", "fused": False, "kept": [], "accuracy": 0.97, "time": 0.3,
     "size": 23_000},
]  # fmt: skip


def write_model(folder: Path, weights: np.ndarray, **metadata: str) -> None:
    """Write a model of one product."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", [INPUT, "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    for key, value in metadata.items():
        model.metadata_props.add(key=f"orun.{key}", value=value)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def write_bundle(folder: Path) -> None:
    write_model(folder, np.ones((64, 64), np.int8))
    write_json(folder / "provenance.json", {})
    write_json(folder / "measurements.json", {})
    write_manifest(folder, "bert", "1.2.0")


def write_findings(folder: Path) -> None:
    findings: list[dict[str, object]] = [
        {"node": f"{LAYER}_{number}", "op": "MatMul", "tensor": "t", "ours": "t", "sqnr": 20.0 + number, "local": 31.5,
         "weights": None, "share": share, "nodes": [], "replaced": []}
        for number, share in enumerate([0.62, 0.21, 0.0, -0.12, -3.5, None])
    ]  # fmt: skip
    (folder / "tensors.json").write_text(json.dumps({"format": 1, "findings": findings}))


def write_profile(folder: Path) -> None:
    nodes = [
        {
            "name": f"{LAYER}_{number}",
            "op": "MatMul",
            "index": number,
            "provider": "CPU",
            "seconds": 0.001 / (number + 1),
        }
        for number in range(20)
    ]
    total = sum(node["seconds"] for node in nodes)  # type: ignore[misc] # mixed values
    operators = [
        {"name": "MatMul", "seconds": 0.0, "reference": 0.004, "share": -4.0},
        {"name": "MatMulInteger", "seconds": 0.0018, "reference": 0.0, "share": 1.8},
    ]
    document = {"format": 1, "models": {"model": {"total": total, "nodes": nodes}}, "slower": {"operators": operators}}
    (folder / "profile.json").write_text(json.dumps(document))


def write_samples(folder: Path, names: Sequence[str] = ("model", "reference")) -> None:
    random, scales = np.random.default_rng(0), (9e-4, 19e-4)
    times = {f"{name}.wall": random.gamma(9, scale, 2000) for name, scale in zip(names, scales, strict=False)}
    np.savez_compressed(folder / "samples.npz", **times)  # type: ignore[arg-type] # an option of that type


ARTIFACTS: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...], int]] = {
    "export": ("convert/torch", lambda folder: write_model(folder, np.ones((64, 64), np.float32)), (), 90_000),
    "int8": ("quantize/dynamic", lambda folder: write_model(folder, np.ones((64, 64), np.int8)), ("export",), 24_000),
    "prune": ("optimize/prune", lambda folder: write_model(folder, np.ones((8, 8), np.int8)), ("int8",), 26_000),
    "tuned": (
        "quantize/tune",
        lambda folder: write_model(
            folder,
            np.ones((64, 64), np.uint8),
            tune=json.dumps({"metric": "cosine.mean", "chosen": FRONT[0], "front": FRONT}),
        ),
        ("export",),
        24_000,
    ),
    "debug": ("quantize/debug", write_findings, ("int8", "export"), 0),
    "profile": ("measure/profile", write_profile, ("int8", "export"), 0),
    "latency": ("measure/latency", write_samples, ("int8", "export"), 0),
    "release": ("release/bundle", write_bundle, ("int8", "latency", "accuracy"), 0),
}


def stored_run(folder: Path) -> RunResult:
    """Return a run of every kind of artifact that the report reads, with its store in the folder."""
    run = folder / "artifacts" / "runs" / PASSED.run
    stages = {}
    with Store.open(folder / "artifacts") as store:
        for name, (uses, write, needs, size) in ARTIFACTS.items():
            path = folder / name
            path.mkdir()
            write(path)
            tree = store.add_tree(path).digest
            metrics = {"size": Metric(float(size), "B", "lower")} if size else {}
            stages[name] = StageResult(
                name, uses, "built", reasons_of("never run before"), "e" * 64, tree, f"artifacts/out/bert/{name}",
                size or 900, 12.5, NOW, metrics, needs=needs,
            )  # fmt: skip
    goal = components({"parameter at_least": "0.99", "parameter at_most": "null"})
    stages["tuned"] = replace(stages["tuned"], inputs=goal)
    stages["latency"] = replace(stages["latency"], metrics=LATENCY.metrics)
    run.mkdir(parents=True)
    slow = replace(
        P50, rule="max", threshold="12ms", unit="s", measured=0.00804, interval=Estimate(0.00804, 0.00801, 0.00812)
    )
    stages = {**stages, "accuracy": replace(ACCURACY, needs=("int8", "export"))}
    order = sorted(stages.values(), key=lambda stage: stage.stage == "release")
    return replace(
        PASSED, stages=tuple(order), verdicts=(COSINE, slow, SPEEDUP), folder=run, overrides={"vars.sequence": "64"}
    )
