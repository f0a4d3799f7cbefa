"""Fuzzing of the files that orun reads: each must be accepted, or refused with a message, fast and in little memory.

It changes a few places of real pipeline files, bundles, run records, baselines, project settings and requirements files
at random, and lets orun read the result.

    python -m benchmarks.mutations --n 20000 --seed 1 --only pipelines bundles

For each kind it prints how many files were accepted, how many were refused, and all other outcomes with an example.
Exit status 1 means that there were others: an error that is not orun's, a message of more than 5,000 letters, a file
that took more than 2 s of CPU time, or a process that grew beyond 500 MB.
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
SECONDS, MEMORY, LETTERS = 2.0, 500 * 10**6, 5_000  # limits of a file, and of a message
HUNG = 120  # seconds after which a file is given up


class Outcome(NamedTuple):
    """Outcome of reading a file: the file's text, the outcome in words, seconds of CPU time."""

    text: str
    outcome: str
    seconds: float


class _HungError(BaseException):
    """A file took too long."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Let orun read mutated files of each kind, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=5000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=tuple(CORPORA), default=tuple(CORPORA), help="kinds of files")
    options = parser.parse_args(arguments)
    rows, failed = [], False
    for name in options.only:
        counts: Counter[str] = Counter()
        slowest = 0.0
        for text, outcome, seconds in outcomes(name, options.n, options.seed):
            counts[outcome] += 1
            slowest = max(slowest, seconds)
            if outcome not in (TAKEN, REFUSED) and counts[outcome] == 1:
                print(f"{name}: {outcome}\n{text[:LETTERS]}")
        wrong = "; ".join(f"{count} {outcome}" for outcome, count in counts.items() if outcome not in (TAKEN, REFUSED))
        failed = failed or bool(wrong)
        megabytes = f"{_peak() / 10**6:.0f}"
        rows.append(
            [name, str(options.n), str(counts[TAKEN]), str(counts[REFUSED]), f"{slowest:.2f}", megabytes, wrong]
        )
    titles = ["files", "number", TAKEN, REFUSED, "slowest, CPU s", "peak of the process, MB", "others"]
    print(table(titles, rows))
    if failed:
        raise SystemExit(1)


def outcomes(name: str, count: int, seed: int) -> Iterator[Outcome]:
    """Yield mutated files of a kind, each with the outcome of reading it."""
    random = Random(seed)
    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        with tempfile.TemporaryDirectory() as folder:
            corpus = CORPORA[name](Path(folder))
            for _ in range(count):
                text = corpus.write(random)
                start, peak = time.process_time(), _peak()
                outcome = _outcome(corpus)
                seconds = time.process_time() - start
                if seconds > SECONDS:
                    outcome = f"{outcome}, after more than {SECONDS:g} s"
                if _peak() > max(peak, MEMORY):
                    outcome = f"{outcome}, in more than {MEMORY // 10**6} MB"
                yield Outcome(text, outcome, seconds)
    finally:
        signal.signal(signal.SIGALRM, before)


def _outcome(corpus: Corpus) -> str:
    signal.alarm(HUNG)
    try:
        refused = corpus.read()
    except OrunError as error:
        return _refusal(error)
    except (Exception, _HungError) as error:  # noqa: BLE001 - the search is for these
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
    finally:
        signal.alarm(0)
    return REFUSED if refused else TAKEN


def _refusal(error: OrunError) -> str:
    messages = [render([item]) for item in error.problems] if isinstance(error, PipelineError) else [str(error)]
    if max(map(len, messages)) > LETTERS:
        return f"refused with more than {LETTERS} letters"
    return REFUSED if all(messages) else "refused without a message"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise _HungError


if __name__ == "__main__":
    main()
