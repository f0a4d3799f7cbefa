"""Files with random mistakes: each must be read, or be refused with a message, soon and in little memory.

Takes real pipeline files, bundles, run records, baselines, project settings and requirements files, changes a few
places of each at random, and lets orun read the result.

    python -m benchmarks.mutations --n 20000 --seed 1 --only pipelines bundles

It prints for each kind how many files were taken, how many were refused, and what else came of the others, with the
first of each. Its status is 1 when there are others: an error that is none of orun's, one that tells a mistake in more
than 5,000 letters, a file that took more than 2 s of CPU time, or one with which the process grew beyond 500 MB.
"""

from __future__ import annotations

import argparse
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from benchmarks.corpora import CORPORA, Corpus
from benchmarks.spent import table
from orun.errors import OrunError, PipelineError
from orun.pipeline.problems import render

TAKEN, REFUSED = "taken", "refused"
SECONDS, MEMORY, LETTERS = 2.0, 500 * 10**6, 5_000  # that a file may cost, and a mistake may be told in
HUNG = 120  # seconds after which a file is given up


class Outcome(NamedTuple):
    """What came of a file: its text, what that was, seconds of CPU time."""

    text: str
    what: str
    seconds: float


class _HungError(BaseException):
    """A file that is waited for too long."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Let orun read so many files of each kind, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=5000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=tuple(CORPORA), default=tuple(CORPORA), help="kinds of files")
    options = parser.parse_args(arguments)
    rows, failed = [], False
    for name in options.only:
        found: Counter[str] = Counter()
        slowest = 0.0
        for text, what, seconds in outcomes(name, options.n, options.seed):
            found[what] += 1
            slowest = max(slowest, seconds)
            if what not in (TAKEN, REFUSED) and found[what] == 1:
                print(f"{name}: {what}\n{text[:LETTERS]}")
        others = "; ".join(f"{count} {what}" for what, count in found.items() if what not in (TAKEN, REFUSED))
        failed = failed or bool(others)
        megabytes = f"{_peak() / 10**6:.0f}"
        rows.append([name, str(options.n), str(found[TAKEN]), str(found[REFUSED]), f"{slowest:.2f}", megabytes, others])
    titles = ["files", "number", TAKEN, REFUSED, "slowest, CPU s", "peak of the process, MB", "others"]
    print(table(titles, rows))
    if failed:
        raise SystemExit(1)


def outcomes(name: str, count: int, seed: int) -> Iterator[Outcome]:
    """Mutated files of a kind, each with what came of reading it."""
    random = Random(seed)
    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        with tempfile.TemporaryDirectory() as folder:
            corpus = CORPORA[name](Path(folder))
            for _ in range(count):
                text = corpus.write(random)
                start, peak = time.process_time(), _peak()
                what = _outcome(corpus)
                seconds = time.process_time() - start
                if seconds > SECONDS:
                    what = f"{what}, after more than {SECONDS:g} s"
                if _peak() > max(peak, MEMORY):
                    what = f"{what}, in more than {MEMORY // 10**6} MB"
                yield Outcome(text, what, seconds)
    finally:
        signal.signal(signal.SIGALRM, before)


def _outcome(corpus: Corpus) -> str:
    signal.alarm(HUNG)
    try:
        refused = corpus.read()
    except OrunError as error:
        return _told(error)
    except (Exception, _HungError) as error:  # noqa: BLE001 - what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
    finally:
        signal.alarm(0)
    return REFUSED if refused else TAKEN


def _told(error: OrunError) -> str:
    told = [render([one]) for one in error.problems] if isinstance(error, PipelineError) else [str(error)]
    if max(map(len, told)) > LETTERS:
        return f"refused with more than {LETTERS} letters"
    return REFUSED if all(told) else "refused without a word"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise _HungError


if __name__ == "__main__":
    main()
