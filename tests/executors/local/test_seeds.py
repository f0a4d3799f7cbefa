from __future__ import annotations

import random

import pytest

from orun.executors import LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, log_of, result

CODE = """
import random
SETS
def draw(context):
    import importlib.util
    import LIBRARY
    print(random.random(), DRAWS)
    assert importlib.util.find_spec("LIBRARY") is LIBRARY.__spec__
    assert type(LIBRARY.__loader__).__name__ == "SourceFileLoader"
"""
DRAWS = {"numpy": "numpy.random.rand()", "torch": "torch.rand(1).item()"}


def draws(library: str, seed: int) -> float:
    """What the library's own generator draws first."""
    if library == "numpy":
        import numpy as np

        return float(np.random.RandomState(seed).rand())
    import torch

    return float(torch.rand(1, generator=torch.Generator().manual_seed(seed)).item())


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_library_draws_by_the_seed_whenever_it_is_imported(
    executor: LocalExecutor, project: Project, library: str
) -> None:
    code = CODE.replace("LIBRARY", library).replace("DRAWS", DRAWS[library])
    project.write("pipelines/early.py", code.replace("SETS", ""))
    project.write("pipelines/late.py", code.replace("SETS", "import os\nos.environ['X'] = 'y'  # nothing is preloaded"))
    for seed, file, preload in ((0, "early", (library,)), (2**32 - 1, "early", (library,)), (2**32 - 1, "late", ())):
        job = project.job(f"{file}.py:draw", seed=seed, spec=Spec(output="metrics", preload=preload))
        result(executor, job)
        assert [float(text) for text in log_of(job).split()] == [random.Random(seed).random(), draws(library, seed)]
