"""Which time of an inference on several threads tells a slower model from an equal one on a busy machine?

Measures launches of a model against itself and against itself with nodes planted, on several threads and with noise
switched on, takes every statistic from the same launches, and says how steady each is and how the sequential test
does with it.

    python -m benchmarks.thread_statistics --model model.onnx --out threads.jsonl

Every launch is a line of `--out`; a run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planting import noise, plant
from orun.measure import nodes
from orun.measure.nodes import undisturbed
from orun.measure.oncpu import Floats, waits
from orun.measure.sequential import Evidence
from orun.measure.session import open_session
from orun.stages.timing import Sizes, feeds
from orun.targets import Target

QUADS = 8
BLOCK_SECONDS = 0.03
WARM_SECONDS = 0.05
GATES = 2000  # drawn from the launches, for the error rates
MOST = 12  # launches of such a gate
QUIET_SECONDS = 50e-6  # of waiting in an inference that still counts as none
WALL, CPU, MAIN, MOST_WAITED, ALL_WAITED = range(5)  # columns of a reading
NODES = "nodes left in peace"

Blocks = list[tuple[str, Floats]]  # the model, and what was read of each inference
Take = Callable[[Floats], Floats]  # one time of each inference
Compare = Callable[[Blocks], float]  # the log ratio of the other model's time


def main() -> None:
    """Measure the launches that are missing in the output file, and print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder, noise(options.noise, 0):
        os.chdir(folder)
        slower = Path(folder) / "slower.onnx"
        plant(options.model, slower, options.sites, options.rank)
        models = {"model": options.model, "same": options.model, "slower": slower}
        fed = feeds(models, Sizes(1, {"sequence": options.sequence} if options.sequence else {}), 0, None)
        done = _lines(options.out)
        for number in range(len(done), options.launches):
            line = _launch(models, fed, options.threads, random.Random(number))
            done.append(line)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    print("\n".join(table(done, options.limit)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sequence", type=int, help="size of the axis of that name")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sites", type=int, default=4, help="nodes that are planted")
    parser.add_argument("--rank", type=int, default=64, help="their size: the slow-down is in proportion")
    parser.add_argument("--limit", type=float, default=0.05, help="of the gates whose error rates are shown")
    parser.add_argument("--noise", type=int, default=1, help="noise processes")
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "threads.jsonl")
    options = parser.parse_args()
    options.model, options.out = options.model.resolve(), options.out.resolve()
    return options


def _launch(models: Mapping[str, Path], fed: Mapping[str, Any], threads: int, order: random.Random) -> dict[str, Any]:
    """Log ratios of both other models to `model` by each statistic, from fresh processes."""
    target = Target("cpu", session={"intra_op_num_threads": threads})
    line: dict[str, Any] = {}
    for name in order.sample(["same", "slower"], 2):
        with _worker(models["model"], target, fed["model"]) as base, _worker(models[name], target, fed[name]) as other:
            pair = {"model": base, "other": other}
            each = {key: _ask(worker, "open") for key, worker in pair.items()}
            counts = {key: max(round(BLOCK_SECONDS / seconds), 1) for key, seconds in each.items()}
            blocks = _turns(pair, counts, order)
            for worker in pair.values():
                _ask(worker, "profile")
            _turns(pair, counts, order)
            profiles = {key: _ask(worker, "nodes") for key, worker in pair.items()}
        line[name] = {statistic: compare(blocks) for statistic, compare in STATISTICS.items()}
        line[name][NODES] = math.log(undisturbed(profiles["other"]) / undisturbed(profiles["model"]))
        line[name]["kept"] = float(np.mean(_of("model", blocks)[:, ALL_WAITED] <= QUIET_SECONDS))
    return line


def _turns(pair: Mapping[str, Connection], counts: Mapping[str, int], order: random.Random) -> Blocks:
    """What each worker read in quads of blocks that alternate."""
    blocks: Blocks = []
    for _ in range(QUADS):
        first, second = order.sample(list(pair), 2)
        blocks += [(key, _ask(pair[key], counts[key])) for key in (first, second, second, first)]
    return blocks


@contextmanager
def _worker(model: Path, target: Target, feed: Mapping[str, Any]) -> Iterator[Connection]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, model, target, feed), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.kill()
        process.join()


def _ask(connection: Connection, request: str | int) -> Any:
    connection.send(request)
    return connection.recv()


def _serve(connection: Connection, model: Path, target: Target, feed: Mapping[str, Any]) -> None:
    session, parent = open_session(model, target), os.getppid()
    skipped = 0
    while True:
        while not connection.poll(1.0):
            if os.getppid() != parent:  # it was killed, and the pipe is still open in those that it forked
                return
        request = connection.recv()
        if request == "nodes":
            connection.send(nodes.read(Path(session.end_profiling()), skipped).times)
        elif isinstance(request, str):
            if request == "profile":
                session = open_session(model, target, profile=nodes.PREFIX)
            warm = _warm(lambda: session.run(None, feed))  # noqa: B023 - called before the session changes
            skipped = len(warm)
            connection.send(min(warm))
        else:
            connection.send(np.array([_read(lambda: session.run(None, feed)) for _ in range(request)]))  # noqa: B023


def _warm(run: Callable[[], object]) -> list[float]:
    walls: list[float] = []
    while len(walls) < 3 or sum(walls) < WARM_SECONDS:  # noqa: PLR2004 - the first two are slow
        walls.append(_read(run)[WALL])
    return walls


def _read(run: Callable[[], object]) -> tuple[float, ...]:
    """Of an inference: wall, CPU of all threads, waiting of the caller, of the one that waited most, and of all."""
    before, cpu, start = waits(), time.process_time(), time.perf_counter()
    run()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    waited = {thread: seconds - before.get(thread, 0.0) for thread, seconds in waits().items()}
    return wall, cpu, waited[str(os.getpid())], max(waited.values()), sum(waited.values())


def _of(name: str, blocks: Blocks) -> Floats:
    return np.concatenate([readings for key, readings in blocks if key == name])


def _wall(readings: Floats) -> Floats:
    return readings[:, WALL]


def _quiet(readings: Floats) -> Floats:
    """Wall times of the inferences in which no thread waited; where there is none, of that with the least waiting."""
    waited = readings[:, ALL_WAITED]
    walls: Floats = readings[waited <= max(QUIET_SECONDS, waited.min()), WALL]
    return walls


def _less(column: int) -> Take:
    """Wall time less waiting; a thread may have begun to wait before, and so have waited for longer than it took."""
    return lambda readings: np.maximum(readings[:, WALL] - readings[:, column], readings[:, WALL] / 100)


def _ratio(take: Take, share: float = 0.5) -> Compare:
    """The log ratio of a quantile of all inferences of either model."""

    def compare(blocks: Blocks) -> float:
        other, model = (float(np.quantile(take(_of(name, blocks)), share)) for name in ("other", "model"))
        return math.log(other / model)

    return compare


def _paired(take: Take) -> Compare:
    """The median of the log ratios of neighbouring blocks."""

    def compare(blocks: Blocks) -> float:
        halves = [dict(blocks[start : start + 2]) for start in range(0, len(blocks), 2)]
        return float(
            np.median([math.log(np.median(take(half["other"])) / np.median(take(half["model"]))) for half in halves])
        )

    return compare


STATISTICS: Mapping[str, Compare] = {
    "wall": _ratio(_wall),
    "wall, pairs of neighbours": _paired(_wall),
    "wall, fastest tenth": _ratio(_wall, 0.1),
    "wall where no thread waited": _ratio(_quiet),
    "wall less the caller's wait, pairs": _paired(_less(MAIN)),
    "wall less the longest wait, pairs": _paired(_less(MOST_WAITED)),
    "on-CPU of all threads": _ratio(lambda readings: readings[:, CPU]),
    "on-CPU of all threads, pairs": _paired(lambda readings: readings[:, CPU]),
}


def table(lines: Sequence[Mapping[str, Any]], limit: float) -> list[str]:
    """The table in Markdown: one row to a statistic."""
    kept = float(np.mean([line[name]["kept"] for line in lines for name in ("same", "slower")]))
    rows = [
        f"{len(lines)} launches; no thread waited in {kept:.0%} of the inferences",
        "",
        (
            f"| statistic | spread, equal | planted | its spread | equal called slower at {limit:.0%} | undecided "
            "| planted called slower | undecided | launches |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for statistic in (*STATISTICS, NODES):
        same, slower = ([line[name][statistic] for line in lines] for name in ("same", "slower"))
        cells = [f"{np.std(same, ddof=1):.1%}", f"{np.expm1(np.mean(slower)):.1%}", f"{np.std(slower, ddof=1):.1%}"]
        taken: list[int] = []
        for ratios in (same, slower):
            drawn = [_gate(ratios, limit, seed) for seed in range(GATES)]
            answers = Counter(answer for answer, _ in drawn)
            cells += [f"{answers[answer] / GATES:.1%}" for answer in ("slower", "undecided")]
            taken += [count for _, count in drawn]
        rows.append(f"| {statistic} | {' | '.join(cells)} | {np.mean(taken):.1f} |")
    return rows


def _gate(ratios: Sequence[float], limit: float, seed: int) -> tuple[str, int]:
    """A gate on launches drawn without putting back."""
    drawn = random.Random(seed).sample(list(ratios), min(MOST, len(ratios)))
    for count in range(3, len(drawn) + 1):
        answer = Evidence.of(drawn[:count]).answer(math.log1p(limit))
        if answer != "undecided":
            return answer, count
    return "undecided", len(drawn)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
