"""Determinism: each kind yields the same bytes and metrics in another process with another hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orun.stages.registry import BUILTIN, list_kinds

CHAIN = Path(__file__).with_name("chain.py")
SMALL = {
    "check/model", "check/coverage", "measure/accuracy", "measure/size", "optimize/edit", "optimize/python",
    "optimize/layout", "optimize/low-rank", "optimize/pipeline-in-model", "optimize/prune", "quantize/debug",
    "quantize/qat", "release/metadata", "release/card", "release/triton", "release/bundle", "release/publish",
}  # fmt: skip
IN_CHAIN = {
    "train/distill", "train/finetune", "convert/torch", "convert/sklearn", "convert/onnx", "convert/opset",
    "optimize/simplify", "optimize/transformer", "optimize/shapes", "optimize/graph", "optimize/float16",
    "quantize/dynamic", "quantize/static", "quantize/weights",
}  # fmt: skip
ELSEWHERE = {
    "convert/tensorflow": "convert/test_tensorflow.py::test_the_same_bytes_in_every_process",
    "check/web": "check/test_web.py::test_the_same_bytes_again",
    "release/kserve": "release/test_kserve.py::test_the_same_bytes_again",
    "release/web": "release/test_web.py::test_the_same_bytes_again",
}
WITHOUT = {
    "release/serve-check": "it installs packages for half a minute, and no artifact is made of its report",
}

Digests = dict[str, dict[str, str]]


def start(folder: Path, seed: str, part: str) -> subprocess.Popen[str]:
    """The number of threads is that of users, and threads wait without spinning."""
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment |= {"OMP_WAIT_POLICY": "passive", "PYTHONHASHSEED": seed}
    return subprocess.Popen(
        [sys.executable, str(CHAIN), str(folder), part], env=environment, stdout=subprocess.PIPE, text=True
    )


def digests(process: subprocess.Popen[str]) -> Digests:
    output, _ = process.communicate(timeout=580)
    assert process.returncode == 0
    digests: Digests = json.loads(output.splitlines()[-1])
    return digests


PARTS = [pytest.param("small", SMALL, id="small"), pytest.param("chain", IN_CHAIN, id="chain", marks=pytest.mark.slow)]


@pytest.mark.parametrize(("part", "kinds"), PARTS)
def test_the_same_bytes(tmp_path: Path, part: str, kinds: set[str]) -> None:
    processes = [start(tmp_path / "one", "1", part), start(tmp_path / "a longer name", "31337", part)]
    first, second = map(digests, processes)
    assert first == second
    assert {name.partition(" ")[0] for name in first} == kinds


def test_every_kind_has_a_test_of_its_determinism() -> None:
    """Each kind is in `chain.py`, or has its own test, or a reason for having none."""
    in_chain = SMALL | IN_CHAIN
    measuring = {kind.name for kind in list_kinds() if kind.spec.stage_class == "measurement"}
    declared = {kind.name for kind in list_kinds() if not kind.spec.deterministic}
    places = [measuring, declared, in_chain, ELSEWHERE.keys(), WITHOUT.keys()]
    assert set().union(*places) == set(BUILTIN)
    assert sum(map(len, places)) == len(BUILTIN), "one place is enough for a kind"
