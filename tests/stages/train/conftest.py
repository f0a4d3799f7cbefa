"""A teacher that the tests of training share, and how many digits a module recognizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.shared import make_once
from tests.stages.conftest import MODULES
from tests.stages.modules import learning
from tests.stages.support import run_stage


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a network that learned 1,200 digits."""
    params = {"model": "learning.py:teacher", "dataset": "learning.py:training", "epochs": 12, "learning_rate": 5e-3}
    return make_once(
        tmp_path_factory, "teacher", lambda folder: run_stage("train/finetune", folder, params, root=MODULES).output
    )


def accuracy(module: torch.nn.Module, weights: Path) -> float:
    """Share of the unseen digits that a module recognizes."""
    module.load_state_dict(torch.load(weights / "weights.pt", weights_only=True))
    unseen = learning.held_out()
    with torch.inference_mode():
        scores = module.eval()(torch.from_numpy(np.asarray(unseen.inputs["pixels"])))
    return float((scores.argmax(1).numpy() == unseen.labels).mean())
