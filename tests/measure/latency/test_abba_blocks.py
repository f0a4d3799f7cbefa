"""Order of blocks in ABBA blocks, the pairs that count, and when ABBA blocks end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from orun.core.serialization import replace
from orun.measure.latency.abba_blocks import STEADY_ABBA_BLOCKS, AbbaBlocks, Block, Pair
from orun.measure.latency.cpu_cores import CoreWatch
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.timing_method import Method
from tests.measure.support import launched


class RecordingWorker:
    """A worker that notes when it is called, and returns times that depend on the number of the call."""

    def __init__(self, name: str, order: list[str], waits: Sequence[float] = (0.0,)) -> None:
        self.name, self.order, self.waits = name, order, waits

    def time(self, count: int) -> Times:
        waited = self.waits[len(self.order) % len(self.waits)]
        self.order.append(self.name)
        seconds = np.full(count, 1.0 + len(self.order) % 3)
        return Times(seconds, seconds, seconds, waited * float(seconds.sum()))

    def read_yardstick(self) -> float:
        self.order.append("yardstick")
        return 1.4


SESSION = replace(launched({"model": [1.0]}, {}).sessions["model"], each=0.1)


def blocks_of(workers: Any, method: Method = "thread", *, error: float = -1.0, resting: bool = False) -> AbbaBlocks:
    """Return ABBA blocks of blocks of two inferences; by default they never know a median well enough."""
    return AbbaBlocks(workers, dict.fromkeys(workers, 2), method, 12.0, error, Random(3), resting=resting)


def run(names: Sequence[str], *, resting: bool = False) -> tuple[list[Pair], list[str]]:
    """Run ABBA blocks of models whose inferences seem to take 0.1 s; return the pairs, and the order of the workers."""
    order: list[str] = []
    abba = blocks_of({name: RecordingWorker(name, order) for name in names}, resting=resting)
    return abba.run(dict.fromkeys(names, SESSION)), order


def abba_blocks_of(pairs: Sequence[Pair]) -> list[tuple[str, list[Block]]]:
    """Return the other model and the four blocks of each ABBA block."""
    halves = zip(pairs[::2], pairs[1::2], strict=True)
    return [(first.other, [*first.blocks, *second.blocks]) for first, second in halves]


def test_blocks_of_a_quad_mirror_one_another_and_either_model_begins() -> None:
    """So that a drift cancels, and neither model has the better place."""
    pairs, order = run(("model", "baseline"))
    assert len(pairs) == 2 * 15  # ABBA blocks of 0.8 s
    assert [block.name for pair in pairs for block in pair.blocks] == order
    abba_blocks = {tuple(order[start : start + 4]) for start in range(0, len(order), 4)}
    assert abba_blocks == {("model", "baseline", "baseline", "model"), ("baseline", "model", "model", "baseline")}


def test_against_a_reference_a_block_counts_after_one_that_warms_the_caches() -> None:
    """Else the data that the slower model left in the caches slows the faster one down."""
    pairs, order = run(("model", "baseline", "reference"))
    abba_blocks = abba_blocks_of(pairs)
    assert Counter(other for other, _ in abba_blocks) == {"baseline": 15, "reference": 7}  # of 1.6 s
    expected = []
    for other, blocks in abba_blocks:
        names = [block.name for block in blocks]
        first, second = names[:2]
        assert names == [first, second, second, first]
        assert {first, second} == {"model", other}
        expected += names if other == "baseline" else [first, first, second, second, second, second, first, first]
    assert order == expected
    ends = itertools.accumulate(4 if other == "baseline" else 8 for other, _ in abba_blocks)  # blocks timed by then
    assert [blocks[-1].times.wall[0] for _, blocks in abba_blocks] == [1.0 + end % 3 for end in ends]


def test_a_watched_core_is_looked_at_around_each_block_that_counts_against_a_reference() -> None:
    order: list[str] = []
    workers = {name: RecordingWorker(name, order) for name in ("model", "baseline", "reference")}
    abba = replace(blocks_of(workers), watch=CoreWatch())
    abba_blocks = abba_blocks_of(abba.run(dict.fromkeys(workers, SESSION)))
    expected = []
    for other, blocks in abba_blocks:
        for block in blocks:
            watched = other == "reference"
            expected += [block.name, "yardstick", block.name, "yardstick"] if watched else [block.name]
            assert block.yardstick == ((1.4, 1.4) if watched else ())
    assert order == expected


def test_a_pair_counts_only_if_nothing_else_used_the_core_at_either_end_of_its_blocks() -> None:
    alone, edge, shared = (1.4, 1.4), (1.4, 1.67), (1.4, 1.69)
    times = Times(np.ones(2), np.ones(2), np.ones(2), None)
    blocks = [[Block("model", times, readings) for readings in pair] for pair in [(alone, edge), (alone, shared)]]
    pairs = [Pair("reference", pair) for pair in blocks]
    assert replace(blocks_of({}), watch=CoreWatch(1.4)).select(pairs) == pairs[:1]
    later = CoreWatch(1.2)  # which tells that the core was shared all the time
    assert replace(blocks_of({}), watch=later).select(pairs[1:]) == []
    assert blocks_of({}).select(pairs) == pairs


def test_inferences_after_a_rest_take_their_time() -> None:
    pairs, order = run(("model", "baseline"), resting=True)
    assert len(pairs) == 2 * 9  # of a rounding error more than 1.2 s: each block begins with an inference of 0.1 s
    assert len(order) == 36


def test_nothing_is_warmed_for_a_model_alone() -> None:
    pairs, order = run(("model",))
    assert len(order) == 2 * len(pairs)


def selected(waits: Sequence[float | None], method: Method = "threads", *, resting: bool = True) -> list[int]:
    """Return which pairs count if threads waited for such shares of the time of each block."""
    seconds = np.ones(2)
    blocks = [Block("model", Times(seconds, seconds, seconds, None if share is None else 2 * share)) for share in waits]
    pairs = [Pair("model", blocks[start : start + 2]) for start in range(0, len(blocks), 2)]
    return [pairs.index(pair) for pair in blocks_of({}, method, resting=resting).select(pairs)]


def test_on_several_threads_a_pair_counts_only_if_each_had_a_core() -> None:
    """A thread that waits leaves its share to the others: an inference is that of fewer threads."""
    quiet, edge, waited = [0.0, 0.0], [0.1, 0.0], [0.11, 0.0]  # of one block, so of half of the pair
    assert selected([*quiet, *waited, *edge, *waited]) == [0, 2]
    assert selected([*waited, *waited], "wall") == []
    assert selected([None, None, None, None]) == [0, 1]  # where the kernel does not count
    assert selected([*waited, *waited], "thread", resting=False) == [0, 1]  # CPU time of one thread, whatever it waits
    assert selected([*waited, *waited], "thread") == [0, 1]  # of a model that seemed to have several in a later launch
    assert selected([*waited, *waited], "process") == [0, 1]


def test_blocks_go_on_until_enough_pairs_count() -> None:
    order: list[str] = []
    waits = [0.0] * 4 + [0.5] * 4  # every other ABBA block is disturbed
    workers = {name: RecordingWorker(name, order, waits) for name in ("model", "baseline")}
    abba = blocks_of(workers, "threads", error=100.0, resting=True)  # known well enough as soon as that can be said
    pairs = abba.run(dict.fromkeys(workers, SESSION))
    assert len(pairs) == 2 * (2 * STEADY_ABBA_BLOCKS - 1)
    assert len(abba.select(pairs)) == 2 * STEADY_ABBA_BLOCKS
