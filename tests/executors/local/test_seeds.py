from __future__ import annotations

import pytest

from orun.executors import LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, log_of, result

CODE = """
import random
def draw(context):
    import numpy, torch
    import importlib.util
    print(random.random(), numpy.random.rand(), torch.rand(1).item())
    assert importlib.util.find_spec("torch") is torch.__spec__
    assert type(torch.__loader__).__name__ == "SourceFileLoader"
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], str]:
    """What stages draw by their seed, and by whether the libraries are there when they start."""
    folder = tmp_path_factory.mktemp("seeds")
    project = Project(folder / "project", folder / "work")
    project.write("pipelines/mine.py", CODE)
    project.write("pipelines/late.py", CODE.replace("import random", "import os, random\nos.environ['X'] = 'y'"))
    logs = {}
    with LocalExecutor() as executor:
        for seed, preloaded in ((0, True), (2**32 - 1, True), (2**32 - 1, False)):
            spec = Spec(output="metrics", preload=("numpy", "torch") if preloaded else ())
            job = project.job("mine.py:draw" if preloaded else "late.py:draw", seed=seed, spec=spec)
            result(executor, job)
            logs[seed, preloaded] = log_of(job)
    return logs


def test_the_same_seed_draws_the_same_whenever_a_library_is_imported(drawn: dict[tuple[int, bool], str]) -> None:
    assert drawn[2**32 - 1, True] == drawn[2**32 - 1, False]


def test_another_seed_draws_something_else(drawn: dict[tuple[int, bool], str]) -> None:
    zero, other = drawn[0, True].split(), drawn[2**32 - 1, True].split()
    assert all(one != two for one, two in zip(zero[:1], other[:1], strict=True))


def test_the_seed_is_the_library_s_own(drawn: dict[tuple[int, bool], str]) -> None:
    import random

    import numpy as np
    import torch

    expected = [random.Random(0).random(), np.random.RandomState(0).rand()]
    generator = torch.Generator()
    generator.manual_seed(0)
    expected.append(torch.rand(1, generator=generator).item())
    assert [float(text) for text in drawn[0, True].split()] == expected
