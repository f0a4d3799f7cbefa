"""The command of `orun init` that messages advise."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.scaffold.goal import parse_goal
from orun.scaffold.init_command import format_init_command
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target

CPU, CUDA = find_target("cpu"), find_target("cuda")
INPUTS = (InputFact("x", "float32", ("batch", 3)), InputFact("scale", "int64", ()))
GOAL = "'cosine.mean>0.9, p50<1ms'"
DECLARED = "--input 'x=float32[batch,3]' --input 'scale=int64[]'"


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (
            Request(
                ModelFacts("sklearn", "../my forest.joblib", needs_trust=True), CPU, "made.py:rows", is_made_up=True
            ),
            "orun init 'my forest.joblib' --trust -o out/load.yaml",
        ),
        (
            Request(
                ModelFacts("torch", "../net.py:load", INPUTS), CUDA, "made.py:rows", parse_goal("cosine>0.9, p50<1ms")
            ),
            f"orun init net.py:load --target cuda {DECLARED} --data out/made.py:rows --goal {GOAL} -o out/load.yaml",
        ),
        (
            Request(ModelFacts("torch", "net.PTH", INPUTS), CPU, {"path": "../rows.csv", "labels": "y"}),
            f"orun init out/net.PTH {DECLARED} --data rows.csv -o out/load.yaml",
        ),
        (Request(ModelFacts("tensorflow", "net", INPUTS), CPU), f"orun init out/net {DECLARED} -o out/load.yaml"),
        (Request(ModelFacts("torch", "bert", INPUTS), CPU), "orun init out/bert -o out/load.yaml"),
        (Request(ModelFacts("torch", "net.pt2", INPUTS), CPU), "orun init out/net.pt2 -o out/load.yaml"),
    ],
)
def test_all_options_of_a_request(options: Request, command: str) -> None:
    assert format_init_command(Path("out/load.yaml"), options) == command


def test_the_default_file_is_not_named() -> None:
    assert format_init_command(Path("net.yaml"), Request(ModelFacts("onnx", "net.onnx"), CPU)) == "orun init net.onnx"
