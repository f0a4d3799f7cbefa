"""Properties of a target."""

from __future__ import annotations

from orun.core.targets import Provider, Target, count_gpus


def test_a_target_on_a_gpu_takes_one() -> None:
    cpu, cuda = Target("cpu"), Target("gpu", providers=(Provider("CUDAExecutionProvider"),))
    assert (count_gpus([cpu]), count_gpus([cpu, cuda, cuda]), count_gpus([])) == (0, 1, 0)
