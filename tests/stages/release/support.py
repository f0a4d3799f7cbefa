"""Provenance of a model, and a real bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orun.core.metrics import Comparison, Estimate, Metric
from orun.core.serialization import encode
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage

MATMUL = """
<ir_version: 9, opset_import: ["" : 20]>
scale (float[batch, 4] x) => (float[batch, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }
"""
P50 = Metric(
    0.008,
    "s",
    "lower",
    "timing",
    Estimate(0.008, 0.0079, 0.0082),
    reference=Comparison(0.017, Estimate(0.47, 0.46, 0.48), Estimate(-0.009, -0.0091, -0.0089), "paired", 9),
)


def provenance() -> dict[str, Any]:
    """Two stages: one that made a model, one that measured it."""
    common = {"host": {"cpu": "AMD | EPYC"}}
    return {
        "pipeline": "bert",
        "needs": {"model": "export"},
        "stages": [
            common
            | {
                "stage": "export", "uses": "convert/torch", "needs": {}, "params": {"opset": 20},
                "tools": {"torch": "2.13.0"}, "key": "a" * 64, "tree": "b" * 64, "metrics": {}, "verdicts": [],
            },
            common
            | {
                "stage": "latency", "uses": "measure/latency", "needs": {"model": "export"}, "params": {},
                "tools": {"onnxruntime": "1.31.1"}, "key": "c" * 64, "tree": "d" * 64, "metrics": {"p50": encode(P50)},
                "verdicts": [
                    {
                        "stage": "latency", "metric": "p50", "rule": "max", "threshold": "9ms", "outcome": "passed",
                        "fails": False, "measured": 0.008, "unit": "s",
                        "interval": encode(Estimate(0.008, 0.0079, 0.0082)),
                        "finding": {"code": "no-machine", "arguments": {"problem": "8 ms is under 9ms"}},
                    }
                ],
            },
        ],
    }  # fmt: skip


def provenance_file(folder: Path) -> Path:
    """Return the path of the file with it, as a stage is given it."""
    path = folder / "provenance.json"
    path.write_text(json.dumps(provenance()), "utf-8")
    return path


def make_bundle(folder: Path, version: str = "1.0", model: str = MATMUL, **inputs: Path) -> StageRun:
    """A bundle of a small model."""
    ports = {"model": artifact(folder, parse(model)), **inputs}
    return run_stage("release/bundle", folder, {"version": version}, inputs=ports, provenance=provenance_file(folder))


def publish(folder: Path, bundle: Path, to: str, *, overwrite: bool = False) -> StageRun:
    """Publish a bundle."""
    return run_stage(
        "release/publish", folder, {"to": to, "overwrite": overwrite}, inputs={"bundle": bundle}, root=folder
    )


def receipt(run: StageRun) -> dict[str, object]:
    """What a stage that published left."""
    document: dict[str, object] = json.loads((run.output / "receipt.json").read_text())
    return document
