"""Each kind that makes a model makes the same bytes in another process with another hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CHAIN = Path(__file__).with_name("chain.py")


Digests = dict[str, dict[str, str]]


def start(folder: Path, seed: str) -> subprocess.Popen[str]:
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": seed}
    return subprocess.Popen(
        [sys.executable, str(CHAIN), str(folder)], env=environment, stdout=subprocess.PIPE, text=True
    )


def digests(process: subprocess.Popen[str]) -> Digests:
    output, _ = process.communicate()
    assert process.returncode == 0
    found: Digests = json.loads(output.splitlines()[-1])
    return found


def test_the_same_bytes(tmp_path: Path) -> None:
    first, second = map(digests, [start(tmp_path / "one", "1"), start(tmp_path / "a longer name", "31337")])
    assert first == second
    assert first.keys() == {
        "convert/torch torchscript",
        "convert/torch dynamo",
        "convert/sklearn",
        "convert/onnx",
        "convert/opset",
        "optimize/simplify",
        "optimize/transformer",
        "optimize/transformer rules",
        "optimize/shapes",
        "optimize/graph",
        "optimize/float16",
        "quantize/dynamic",
        "quantize/static",
        "quantize/weights",
    }
