from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from orun.errors import StageFailed
from tests.stages.conftest import MODULES
from tests.stages.modules import learning
from tests.stages.support import StageRun, digest, run_stage
from tests.stages.train.conftest import accuracy

LEARN = {"model": "learning.py:teacher", "dataset": "learning.py:training", "learning_rate": 3e-3}
INPUTS = {"pixels": {"shape": ["batch", 64], "low": 0.0, "high": 1.0}}


def finetune(folder: Path, weights: Path | None = None, **params: Any) -> StageRun:
    inputs = {} if weights is None else {"weights": weights}
    return run_stage("train/finetune", folder, {**LEARN, **params}, inputs=inputs, root=MODULES)


@pytest.mark.slow
def test_pruned_weights_stay_zero_and_accuracy_comes_back(tmp_path: Path, teacher: Path) -> None:
    module = learning.teacher()
    before = accuracy(module, teacher)
    masked = learning.mask(module)
    torch.save(masked.state_dict(), tmp_path / "weights.pt")
    pruned = accuracy(learning.masked(), tmp_path)
    run = finetune(tmp_path, teacher, prepare="learning.py:mask", epochs=8, learning_rate=1e-2)
    after = learning.masked()
    recovered = accuracy(after, run.output)
    assert pruned < before - 0.1
    assert recovered > before - 0.02
    zeros = sum(int((part.weight == 0).sum()) for part in after if hasattr(part, "weight"))
    assert zeros == round(0.9 * sum(part.weight.numel() for part in after if hasattr(part, "weight")))


def test_what_learned_to_round_becomes_integers(tmp_path: Path, teacher: Path) -> None:
    run = finetune(tmp_path, teacher, prepare="learning.py:rounding", epochs=2, learning_rate=1e-3)
    exported = run_stage(
        "convert/torch",
        tmp_path,
        {
            "model": "learning.py:rounding_teacher",
            "inputs": INPUTS,
            "outputs": ["scores"],
            "exporter": "torchscript",
            "atol": 0.5,
        },
        inputs={"weights": run.output},
        root=MODULES,
    )
    integers = run_stage(
        "quantize/qat", tmp_path, {"inputs": "learning.py:held_out"}, inputs={"model": exported.output}, root=MODULES
    )
    assert (integers.value("quantized"), integers.value("in_float")) == (3, 0)
    judged = run_stage(
        "measure/accuracy",
        tmp_path,
        {"dataset": "learning.py:held_out", "metrics": ["accuracy"]},
        inputs={"model": integers.output},
        root=MODULES,
    )
    assert judged.value("accuracy") > accuracy(learning.teacher(), teacher) - 0.02


def test_the_same_seed_gives_the_same_weights(tmp_path: Path, teacher: Path) -> None:
    first, second = (finetune(tmp_path, teacher, epochs=1) for _ in range(2))
    assert digest(first.output) == digest(second.output)


def test_weights_of_another_module(tmp_path: Path, teacher: Path) -> None:
    with pytest.raises(StageFailed, match=r"weights\.pt does not fit the module that learning\.py:student returns"):
        finetune(tmp_path, teacher, model="learning.py:student")


def test_a_preparation_that_returns_nothing(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        finetune(tmp_path, prepare="learning.py:nothing")
    assert str(caught.value) == "learning.py:nothing must return a torch.nn.Module\n  it returned a NoneType"


def test_a_column_of_values(tmp_path: Path) -> None:
    """Labels `[n]` are compared with values `[n, 1]` one by one: the mean of all digits has a loss of 8."""
    run = finetune(tmp_path, model="learning.py:value", answers="values", epochs=10, learning_rate=1e-2)
    assert run.value("loss") < 5


def test_values_of_another_shape_than_the_labels(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        finetune(tmp_path, model="learning.py:eleven", answers="values")
    assert str(caught.value) == (
        "the module's first output has another shape than the labels\n"
        "  for 64 examples they are [64, 11] and [64]\n"
        "  hint: with `answers: values` a module answers a number for each number of a label"
    )
