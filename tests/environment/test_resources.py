from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.environment import resources


@pytest.fixture(autouse=True)
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with three GPUs."""
    for name in "abc":
        (tmp_path / name).mkdir()
    monkeypatch.setattr(resources, "NVIDIA", tmp_path)
    resources.count_visible_gpus.cache_clear()
    yield
    resources.count_visible_gpus.cache_clear()


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 3), ("", 0), ("0", 1), ("2, 0", 2), ("-1", 0), ("0,-1,1", 1), ("0,0", 1), ("0,1,2,3", 3)],
)
def test_gpus_are_those_that_cuda_may_see(visible: str | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert resources.find_available_resources(4).gpus == count
    assert resources.find_available_resources(4, 7) == resources.Resources(4, None, 7)
