"""Run of each kind once, in a given folder; prints the digests of artifacts and the metrics.

    python tests/stages/chain.py FOLDER [small] [chain]

`small` are kinds that need no PyTorch, `chain` are exports and what follows them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from orun.core.targets import Target
from tests.stages.conftest import MODULES, TINY_BERT
from tests.stages.models import FAKE_QUANTIZED, convolution, parse
from tests.stages.release.support import MATMUL, provenance_file
from tests.stages.support import StageRun, artifact, digest, run_stage


def chain(folder: Path) -> dict[str, StageRun]:
    """Run each kind on the result of the one before it."""

    def run(uses: str, result: StageRun, **params: object) -> StageRun:
        return run_stage(uses, folder, params, inputs={"model": result.output}, root=MODULES)

    exported = run_stage("convert/torch", folder, TINY_BERT, root=MODULES)
    dynamo = run_stage("convert/torch", folder, TINY_BERT | {"exporter": "dynamo"}, root=MODULES)
    shutil.copy(exported.model, folder / "given.onnx")
    simplified = run("optimize/simplify", exported)
    fused = run("optimize/transformer", simplified)
    learning = {"dataset": "learning.py:training", "epochs": 1}
    learned = run_stage("train/finetune", folder, {"model": "learning.py:teacher", **learning}, root=MODULES)
    return {
        "train/finetune": learned,
        "train/distill": run_stage(
            "train/distill",
            folder,
            {"student": "learning.py:student", "teacher": "learning.py:teacher", **learning},
            inputs={"weights": learned.output},
            root=MODULES,
        ),
        "convert/torch torchscript": exported,
        "convert/torch dynamo": dynamo,
        "convert/sklearn": run_stage(
            "convert/sklearn", folder, {"model": "estimators.py:boosted", "data": "estimators.py:digits"}, root=MODULES
        ),
        "convert/onnx": run_stage("convert/onnx", folder, {"path": "given.onnx"}),
        "optimize/simplify": simplified,
        "optimize/simplify onnxslim": run("optimize/simplify", exported, tool="onnxslim"),
        "optimize/transformer": fused,
        "optimize/transformer rules": run("optimize/transformer", dynamo, method="rules"),
        "convert/opset": run("convert/opset", simplified, version=21),
        "optimize/shapes": run("optimize/shapes", simplified, fix={"batch": 1, "sequence": 8}),
        "optimize/graph": run("optimize/graph", simplified),
        "optimize/float16": run("optimize/float16", fused),
        "optimize/float16 bfloat16": run("optimize/float16", simplified, to="bfloat16", atol=0.1, rtol=0.1),
        "quantize/dynamic": run("quantize/dynamic", fused, per_channel=True),
        "quantize/static": run("quantize/static", simplified, dataset="examples.py:tokens"),
        "quantize/weights": run("quantize/weights", simplified),
    }


def small(folder: Path) -> dict[str, StageRun]:
    """Run kinds that check, change by a function, or release a small model."""
    model = artifact(folder, parse(MATMUL))
    provenance = provenance_file(folder)
    cpu = Target("cpu")

    def run(uses: str, **params: object) -> StageRun:
        return run_stage(uses, folder, params, inputs={"model": model}, root=MODULES, target=cpu, provenance=provenance)

    int8 = run("quantize/dynamic")
    image = artifact(folder, convolution())
    both = {"model": int8.output, "reference": model}
    bundle = run("release/bundle", version="1.0")
    return {
        "check/model": run("check/model"),
        "check/coverage": run("check/coverage", target="cpu"),
        "optimize/edit": run("optimize/edit", edits=[{"extract": {"outputs": ["y"]}}, {"rename": {"x": "rows"}}]),
        "optimize/python": run("optimize/python", function="changes.py:eliminate_identity", form="ir"),
        "quantize/qat": run_stage("quantize/qat", folder, inputs={"model": artifact(folder, parse(FAKE_QUANTIZED))}),
        "optimize/layout": run_stage("optimize/layout", folder, inputs={"model": image}),
        "optimize/pipeline-in-model": run("optimize/pipeline-in-model", labels={"names": ["a", "b"], "top": 1}),
        "optimize/prune": run("optimize/prune"),
        "optimize/prune structured": run_stage(
            "optimize/prune", folder, {"method": "structured"}, inputs={"model": image}
        ),
        "optimize/low-rank": run_stage(
            "optimize/low-rank",
            folder,
            {"size": 0.9, "dataset": "examples.py:images"},
            inputs={"model": image},
            root=MODULES,
        ),
        "quantize/debug": run_stage("quantize/debug", folder, inputs=both),
        "measure/accuracy": run_stage("measure/accuracy", folder, {"metrics": ["cosine"]}, inputs=both),
        "measure/size": run("measure/size"),
        "release/metadata": run("release/metadata"),
        "release/card": run("release/card", title="Tiny", license="apache-2.0"),
        "release/triton": run("release/triton", name="tiny"),
        "release/bundle": bundle,
        "release/publish": run_stage(
            "release/publish", folder, {"to": "published"}, inputs={"bundle": bundle.output}, root=folder
        ),
    }


def facts_of(run: StageRun) -> dict[str, str]:
    """Return the digest of each file of a result, and each metric that is not a time."""
    metrics = {name: repr(metric.value) for name, metric in run.metrics.items() if metric.noise != "timing"}
    return digest(run.output) | {f"metric {name}": value for name, value in metrics.items()}


if __name__ == "__main__":
    parts = [{"small": small, "chain": chain}[name] for name in sys.argv[2:]]
    facts = {name: facts_of(run) for part in parts for name, run in part(Path(sys.argv[1])).items()}
    sys.stdout.write(json.dumps(facts) + "\n")
