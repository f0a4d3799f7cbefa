"""Properties of a target."""

from __future__ import annotations

from orun.core.targets import Provider, Target, gpus_of


def test_a_target_on_a_gpu_takes_one() -> None:
    cpu, cuda = Target("cpu"), Target("gpu", providers=(Provider("CUDAExecutionProvider"),))
    assert (gpus_of([cpu]), gpus_of([cpu, cuda, cuda]), gpus_of([])) == (0, 1, 0)
