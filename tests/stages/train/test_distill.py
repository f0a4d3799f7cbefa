from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from orun.errors import StageFailed, UsageError
from orun.stages.train._losses import compute_soft_loss
from tests.stages.conftest import MODULES
from tests.stages.modules import learning
from tests.stages.support import StageRun, digest, run_stage
from tests.stages.train.conftest import accuracy

STUDENT = {"student": "learning.py:student", "teacher": "learning.py:teacher", "dataset": "learning.py:training"}


def distill(folder: Path, teacher: Path | None = None, seed: int = 0, **params: Any) -> StageRun:
    inputs = {} if teacher is None else {"weights": teacher}
    return run_stage("train/distill", folder, {**STUDENT, **params}, inputs=inputs, root=MODULES, seed=seed)


def refusal(folder: Path, **params: Any) -> str:
    with pytest.raises((StageFailed, UsageError)) as caught:
        distill(folder, **params)
    return str(caught.value)


def test_a_quarter_of_the_size_answers_as_well(tmp_path: Path, teacher: Path) -> None:
    run = distill(tmp_path, teacher, epochs=20, learning_rate=1e-2)
    assert [run.value(name) for name in ("parameters", "teacher_parameters")] == [2410, 11386]
    of_teacher = accuracy(learning.teacher(), teacher)
    assert of_teacher > 0.88
    assert accuracy(learning.student(), run.output) > of_teacher - 0.02


def test_the_same_seed_gives_the_same_weights(tmp_path: Path, teacher: Path) -> None:
    first, second, other = (distill(tmp_path, teacher, seed=seed, epochs=1) for seed in (0, 0, 1))
    assert digest(first.output) == digest(second.output)
    assert digest(first.output) != digest(other.output)


@pytest.mark.slow
def test_without_labels_the_teacher_alone_is_learned_from(tmp_path: Path, teacher: Path) -> None:
    run = distill(tmp_path, teacher, epochs=10, learning_rate=2e-2, hard=0.0, dataset="learning.py:unlabelled")
    assert accuracy(learning.student(), run.output) > 0.85


def test_the_map_that_features_are_learned_through_is_no_part_of_the_student(tmp_path: Path, teacher: Path) -> None:
    run, plain = (distill(tmp_path, teacher, epochs=1, features=features) for features in ({"1": "3"}, {}))
    assert digest(run.output) != digest(plain.output)
    assert set(torch.load(run.output / "weights.pt")) == set(learning.student().state_dict())


def test_the_loss_of_features_counts_by_its_weight(tmp_path: Path, teacher: Path) -> None:
    """At a rate that teaches nothing, the loss is a line over the weight, which begins at the loss without features."""
    still: dict[str, Any] = {"epochs": 1, "learning_rate": 1e-12}
    plain = distill(tmp_path, teacher, **still).value("loss")
    none, single, double = (
        distill(tmp_path, teacher, features={"1": "3"}, feature_weight=weight, **still).value("loss")
        for weight in (0.0, 1.0, 2.0)
    )
    assert none == pytest.approx(plain, rel=1e-5)
    assert single - none > 0.01
    assert double - none == pytest.approx(2 * (single - none), rel=1e-5)


@pytest.mark.slow
def test_values_instead_of_classes(tmp_path: Path, teacher: Path) -> None:
    run = distill(tmp_path, teacher, epochs=12, hard=0.0, answers="values", learning_rate=2e-2)
    assert accuracy(learning.student(), run.output) > 0.85


def test_the_soft_loss_is_that_of_the_paper() -> None:
    """Against the definition, by hand."""
    scores, right, temperature = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([[0.0, 3.0, 1.0]]), 4.0
    q, p = ((value[0] / temperature).softmax(0) for value in (scores, right))
    expected = float((p * (p / q).log()).sum()) * temperature**2
    assert float(compute_soft_loss(scores, right, temperature, classes=True)) == pytest.approx(expected, rel=1e-5)
    assert float(compute_soft_loss(right, right, temperature, classes=True)) == pytest.approx(0, abs=1e-6)


def test_refusals(tmp_path: Path) -> None:
    assert refusal(tmp_path, student="learning.py:eleven") == (
        "the student's first output has another shape than the teacher's\n  for 2 examples they are [2, 11] and [2, 10]"
    )
    assert refusal(tmp_path, dataset="learning.py:unlabelled") == (
        "learning.py:unlabelled has no labels to learn from\n  hint: orun.Dataset(inputs, labels)"
    )
    assert refusal(tmp_path, dataset="learning.py:halves") == (
        "the labels of learning.py:halves are float64, not the numbers of classes\n"
        "  hint: `answers: values` learns values instead of classes"
    )
    assert refusal(tmp_path, features={"hidden": "3"}) == (
        "features: the student has no submodule 'hidden'\n  it has 0, 1, 2"
    )
    assert refusal(tmp_path, student="learning.py:number") == (
        "learning.py:number must return a torch.nn.Module\n  it returned a int"
    )
    assert refusal(tmp_path, inputs=["pixel"]) == (
        "learning.py:training has no values for pixel, which the model takes\n  it has pixels\n"
        "  hint: name the arrays of the dataset after the model's inputs"
    )


def test_a_loss_that_grows_without_bounds(tmp_path: Path) -> None:
    message = refusal(tmp_path, dataset="learning.py:huge", epochs=2, learning_rate=1e3).splitlines()
    assert message[0].startswith(("the loss is nan after epoch ", "the loss is inf after epoch "))
    assert message[1] == "  hint: lower `learning_rate`, and see that inputs are scaled as the module expects"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path, device="cuda") == (
        "`device: cuda` needs an NVIDIA GPU that PyTorch sees\n"
        "  hint: `orun doctor` lists the devices; `device: cpu` trains on the processor"
    )
