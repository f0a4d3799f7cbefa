"""Runs each kind that makes a model once, in the folder it is given, and prints the digests of what they made."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.stages.conftest import MODULES, TINY_BERT
from tests.stages.support import StageRun, digest, run_stage


def chain(folder: Path) -> dict[str, StageRun]:
    """What each kind made of the one before it."""

    def run(uses: str, made: StageRun, **params: object) -> StageRun:
        return run_stage(uses, folder, params, inputs={"model": made.output}, root=MODULES)

    exported = run_stage("convert/torch", folder, TINY_BERT, root=MODULES)
    dynamo = run_stage("convert/torch", folder, TINY_BERT | {"exporter": "dynamo"}, root=MODULES)
    shutil.copy(exported.model, folder / "given.onnx")
    simplified = run("optimize/simplify", exported)
    fused = run("optimize/transformer", simplified)
    return {
        "convert/torch torchscript": exported,
        "convert/torch dynamo": dynamo,
        "convert/sklearn": run_stage(
            "convert/sklearn", folder, {"model": "estimators.py:boosted", "data": "estimators.py:digits"}, root=MODULES
        ),
        "convert/onnx": run_stage("convert/onnx", folder, {"path": "given.onnx"}),
        "optimize/simplify": simplified,
        "optimize/transformer": fused,
        "optimize/transformer rules": run("optimize/transformer", dynamo, method="rules"),
        "convert/opset": run("convert/opset", simplified, version=21),
        "optimize/shapes": run("optimize/shapes", simplified, fix={"batch": 1, "sequence": 8}),
        "optimize/graph": run("optimize/graph", simplified),
        "optimize/float16": run("optimize/float16", fused),
        "quantize/dynamic": run("quantize/dynamic", fused, per_channel=True),
        "quantize/static": run("quantize/static", simplified, dataset="examples.py:tokens"),
        "quantize/weights": run("quantize/weights", simplified),
    }


if __name__ == "__main__":
    made = chain(Path(sys.argv[1]))
    sys.stdout.write(json.dumps({name: digest(run.output) for name, run in made.items()}) + "\n")
