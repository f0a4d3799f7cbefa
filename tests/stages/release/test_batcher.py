"""The batcher of a server: what runs together, who gets which rows, and whose error it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.stages.release._server.batcher import Batcher

Array = NDArray[Any]


class Doubler:
    """Model that doubles its rows, notes how many it gets at once, and refuses negative ones."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    async def __call__(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        rows = feed["x"]
        self.runs.append(len(rows))
        await asyncio.sleep(0)
        if (rows < 0).any():
            raise ValueError(f"{rows.min()} is negative")
        return [rows * 2]


def rows(*values: float) -> dict[str, Array]:
    return {"x": np.array(values, np.float32)[:, None]}


def run(size: int, delay: float, *feeds: Mapping[str, Array]) -> tuple[list[int], list[Any]]:
    """Send feeds at the same time; return the rows of each run of the model, and the answers."""
    model = Doubler()

    async def send() -> list[Any]:
        batcher = Batcher(model, size, delay)
        return await asyncio.gather(*map(batcher.run, feeds), return_exceptions=True)

    answers = asyncio.run(send())
    return model.runs, [answer if isinstance(answer, Exception) else answer[0].ravel().tolist() for answer in answers]


def test_requests_that_wait_run_together() -> None:
    assert run(8, 0.01, rows(1), rows(2, 3), rows(4)) == ([4], [[2], [4, 6], [8]])


def test_a_full_batch_does_not_wait() -> None:
    assert run(2, 3600, rows(1), rows(2), rows(3), rows(4)) == ([2, 2], [[2], [4], [6], [8]])


def test_a_request_that_no_longer_fits_begins_the_next_batch() -> None:
    assert run(3, 0.01, rows(1, 2), rows(3, 4)) == ([2, 2], [[2, 4], [6, 8]])


def test_a_request_larger_than_a_batch_runs_alone() -> None:
    assert run(2, 0.01, rows(1), rows(2, 3, 4)) == ([1, 3], [[2], [4, 6, 8]])


def test_requests_of_other_shapes_run_apart() -> None:
    wide = {"x": np.ones((1, 2), np.float32)}
    assert run(8, 0.01, rows(1), wide, rows(3)) == ([2, 1], [[2], [2, 2], [6]])


def test_a_bad_request_fails_alone() -> None:
    runs, (first, bad, last) = run(8, 0.01, rows(1), rows(-2), rows(3))
    assert runs == [3, 1, 1, 1]
    assert (first, str(bad), last) == ([2], "-2.0 is negative", [6])


def test_a_client_that_has_gone_takes_no_one_with_it() -> None:
    model = Doubler()

    async def send() -> list[float]:
        batcher = Batcher(model, 8, 0.01)
        gone = asyncio.create_task(batcher.run(rows(1)))
        stays = asyncio.create_task(batcher.run(rows(2)))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return [float(value) for value in (await stays)[0].ravel()]

    assert asyncio.run(send()) == [4]
