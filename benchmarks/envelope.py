"""How fast, how large and how exact MiniLM is in each form that `pipelines/bert.yaml` gives it, and in PyTorch.

    python -m benchmarks.envelope                        the models in artifacts/out/bert
    python -m benchmarks.envelope --store FOLDER --rounds 20

Batch 1, 128 tokens, one thread. Each round times a few inferences of every form in random order; the figure is the
median CPU time of the process that does them, which hardly hangs on what else the machine does. Cosine is to PyTorch's
embeddings of the texts of `pipelines/docs.py`, and recall@1 is that of its retrieval task.
"""

from __future__ import annotations

import argparse
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.spent import ROOT, machine, table
from orun.measure.dataset import Dataset, Values, batches, count
from orun.measure.metrics_task import ranks, recall
from orun.measure.oncpu import Floats, Times, timed
from orun.measure.session import open_session
from orun.measure.workers import Subject, Worker
from orun.targets import Target

FORMS = {"export": "plain export", "simplify": "simplified", "fuse": "fused", "int8": "int8, dynamic"}
TORCH = "PyTorch eager"
SEQUENCE = 128
BLOCK = 5  # inferences of a form in a round
WARMUP = 0.3  # seconds
TARGET = Target("cpu", session={"intra_op_num_threads": 1})

Feed = Mapping[str, NDArray[Any]]
Embed = Callable[[Feed], NDArray[np.float32]]


@dataclass(frozen=True)
class Quality:
    """How near to PyTorch's the embeddings are, and what they are good for."""

    mean: float
    least: float
    recall: float


def torch_model() -> tuple[Embed, int]:
    """PyTorch's own model on one thread, and the bytes of its parameters."""
    import torch

    from pipelines import minilm

    torch.set_num_threads(1)
    module = minilm.load().eval()

    def embed(feed: Feed) -> NDArray[np.float32]:
        with torch.inference_mode():
            found: NDArray[np.float32] = module(
                **{name: torch.from_numpy(value) for name, value in feed.items()}
            ).numpy()
        return found

    return embed, sum(tensor.numel() * tensor.element_size() for tensor in module.parameters())


def cpu_times(models: Mapping[str, tuple[Path, Target]], eager: Embed, feed: Feed, rounds: int) -> dict[str, float]:
    """Median CPU seconds, of all threads, of an inference of each form."""
    spent: dict[str, list[Floats]] = {name: [] for name in (TORCH, *models)}
    with contextlib.ExitStack() as stack:
        timers: dict[str, Callable[[int], Times]] = {}
        for name, (path, target) in models.items():  # forked before PyTorch works here
            worker = stack.enter_context(Worker(Subject(path, target, feed)))
            worker.open(WARMUP)
            timers[name] = worker.time
        timers[TORCH] = lambda number: timed(lambda: eager(feed), number)
        timers[TORCH](BLOCK)
        order = random.Random(0)
        for _ in range(rounds):
            for name in order.sample(list(timers), len(timers)):
                spent[name].append(timers[name](BLOCK).process)
    return {name: float(np.median(np.concatenate(blocks))) for name, blocks in spent.items()}


def embeddings(model: Embed, inputs: Mapping[str, Values]) -> NDArray[np.float32]:
    """The embedding of each text, fed alone, `[n, d]`."""
    found: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * count(inputs)
    for batch in batches(inputs, 1):
        found[int(batch.examples[0])] = model(batch.feed)[0]
    return np.stack(found)


def quality(models: Mapping[str, Embed], dataset: Dataset) -> dict[str, Quality]:
    """Quality of each model; the first is what the others are compared with."""
    if dataset.candidates is None or dataset.labels is None:
        raise ValueError("the dataset must be one of retrieval")
    found: dict[str, Quality] = {}
    right = None
    for name, model in models.items():
        queries, rests = embeddings(model, dataset.inputs), embeddings(model, dataset.candidates)
        both = np.concatenate([queries, rests])
        right = both if right is None else right
        cosine = (both * right).sum(axis=1)  # of vectors of length 1
        share = float(recall(ranks(queries, rests, dataset.labels), 1).mean())
        found[name] = Quality(float(cosine.mean()), float(cosine.min()), share)
    return found


def _session(path: Path) -> Embed:
    made = open_session(path, TARGET)
    return lambda feed: made.run(None, dict(feed))[0]


def made_up_feed() -> Feed:
    """A text of `SEQUENCE` random tokens."""
    ids = np.random.default_rng(0).integers(0, 30522, (1, SEQUENCE))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, default=ROOT / "artifacts", help="where pipelines/bert.yaml is built")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of inferences of each form")
    options = parser.parse_args(arguments)
    paths = {name: options.store / "out" / "bert" / stage / "model.onnx" for stage, name in FORMS.items()}
    missing = [str(path) for path in paths.values() if not path.exists()]
    if missing:
        parser.error(f"{missing[0]} is not there: orun pipelines/bert.yaml --store {options.store}")
    from pipelines import docs

    eager, size = torch_model()
    times = cpu_times({name: (path, TARGET) for name, path in paths.items()}, eager, made_up_feed(), options.rounds)
    found = quality({TORCH: eager} | {name: _session(path) for name, path in paths.items()}, docs.pairs())
    sizes = {TORCH: size} | {name: path.stat().st_size for name, path in paths.items()}
    rows = [
        [
            name,
            f"{seconds * 1000:.2f}",
            f"{times[TORCH] / seconds:.2f}",
            f"{times[FORMS['export']] / seconds:.2f}",
            f"{sizes[name] / 1e6:.1f}",
            f"{found[name].mean:.4f}",
            f"{found[name].least:.4f}",
            f"{found[name].recall:.1%}",
        ]
        for name, seconds in times.items()
    ]
    head = ["form", "CPU ms", "speed-up to PyTorch", "to the export", "MB", "cosine, mean", "least", "recall@1"]
    print(machine(), table(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
