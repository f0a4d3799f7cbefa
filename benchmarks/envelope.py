"""Speed, size and accuracy of MiniLM in PyTorch, in each form of `pipelines/bert.yaml`, and in OpenVINO.

    python -m benchmarks.envelope                        the models in artifacts/out/bert
    python -m benchmarks.envelope --store FOLDER --rounds 20 --threads 2

Batch 1, 128 tokens. Each round times a few inferences of every form in random order, after as many that warm the
caches. On one thread the figure is the median CPU time of the process, which other load hardly affects. On several
threads CPU time is work and not latency, so the figure is the lower quartile of the wall times. Cosine is to PyTorch's
embeddings of the texts of `pipelines/docs.py`, and recall@1 is of its retrieval task. OpenVINO runs in the environment
of `pipelines/openvino.yaml`, which is made if it is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.spent import ROOT, machine, table
from orun.core.serialization import replace
from orun.core.targets import Provider, Target
from orun.environment import venv_builder, venvs
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.dataset import Dataset, Values, count, iter_batches
from orun.measure.foreign_process import RemoteSession
from orun.measure.latency.cpu_time import Floats, Times, time_inferences
from orun.measure.metrics.task import rank_candidates, recall_at
from orun.measure.session import open_session
from orun.measure.workers import WorkerProcess
from orun.pipeline import load

FORMS = {"export": "plain export", "simplify": "simplified", "fuse": "fused", "int8": "int8, dynamic"}
TORCH = "PyTorch eager"
COMPILED = "torch.compile"
PRECISIONS = ("f32", "bf16")  # of OpenVINO
SEQUENCE = 128
BLOCK = 5  # timed inferences of a form in a round, after as many that do not count
WARMUP = 0.3  # seconds
WALL_QUANTILE = 0.25  # less disturbed than the median when threads wait for one another

Feed = Mapping[str, NDArray[Any]]
Embed = Callable[[Feed], NDArray[np.float32]]


@dataclass(frozen=True)
class Quality:
    """Cosine of embeddings to PyTorch's (mean and least), and recall."""

    mean: float
    least: float
    recall: float


def cpu(threads: int) -> Target:
    """Return a target with ONNX Runtime's own kernels on so many threads."""
    return Target("cpu", session={"intra_op_num_threads": threads})


def openvino(threads: int, precision: str) -> Target:
    """Return the target of `pipelines/openvino.yaml` with this precision and number of threads."""
    pipeline = load(ROOT / "pipelines" / "openvino.yaml")
    target = next(stage.target for stage in pipeline.stages if stage.target and stage.target.environment)
    if target.environment:
        venv_builder.make(target.environment, print)
    how = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": str(threads), "NUM_STREAMS": "1"}
    options = {**target.providers[0].options, "load_config": json.dumps({"CPU": how})}
    providers = (Provider(target.providers[0].name, options),)
    interpreter = venvs.choose_interpreter(target.environment)
    return replace(target, providers=providers, environment=None, interpreter=interpreter)


def torch_models(threads: int) -> tuple[dict[str, Embed], int]:
    """Return PyTorch's model, eager and compiled, and the bytes of its parameters."""
    import torch

    from pipelines import minilm

    torch.set_num_threads(threads)
    module = minilm.load().eval()

    def embed(module: Any, feed: Feed) -> NDArray[np.float32]:
        with torch.inference_mode():
            embedding: NDArray[np.float32] = module(
                **{name: torch.from_numpy(value) for name, value in feed.items()}
            ).numpy()
        return embedding

    compiled = torch.compile(module, dynamic=True)
    size = sum(tensor.numel() * tensor.element_size() for tensor in module.parameters())
    return {TORCH: partial(embed, module), COMPILED: partial(embed, compiled)}, size


def times(
    models: Mapping[str, tuple[Path, Target]], modules: Mapping[str, Embed], feed: Feed, rounds: int, threads: int = 1
) -> dict[str, list[Floats]]:
    """Return the seconds of each inference of each form, by blocks: CPU time on one thread, else wall time."""
    spent: dict[str, list[Floats]] = {name: [] for name in (*modules, *models)}
    with contextlib.ExitStack() as stack:
        timers: dict[str, Callable[[int], Times]] = {}
        for name, (path, target) in models.items():  # forked before PyTorch starts threads in this process
            worker = stack.enter_context(WorkerProcess(BenchmarkCase(path, target, feed)))
            worker.open(WARMUP)
            timers[name] = worker.time
        for name, module in modules.items():
            timers[name] = partial(time_inferences, partial(module, feed))
            timers[name](BLOCK)
        order = random.Random(0)
        for _ in range(rounds):
            for name in order.sample(list(timers), len(timers)):
                timers[name](BLOCK)
                block = timers[name](BLOCK)
                spent[name].append(block.process if threads == 1 else block.wall)
    return spent


def embeddings(model: Embed, inputs: Mapping[str, Values]) -> NDArray[np.float32]:
    """Return the embedding of each text, fed alone, `[n, d]`."""
    rows: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * count(inputs)
    for batch in iter_batches(inputs, 1):
        rows[int(batch.examples[0])] = model(batch.feed)[0]
    return np.stack(rows)


def quality(models: Mapping[str, Embed], dataset: Dataset) -> dict[str, Quality]:
    """Return the quality of each model, compared with the first."""
    if dataset.candidates is None or dataset.labels is None:
        raise ValueError("the dataset must be one of retrieval")
    qualities: dict[str, Quality] = {}
    right = None
    for name, model in models.items():
        queries, rests = embeddings(model, dataset.inputs), embeddings(model, dataset.candidates)
        both = np.concatenate([queries, rests])
        right = both if right is None else right
        cosine = (both * right).sum(axis=1)  # of vectors of length 1
        share = float(recall_at(rank_candidates(queries, rests, dataset.labels), 1).mean())
        qualities[name] = Quality(float(cosine.mean()), float(cosine.min()), share)
    return qualities


def _session(path: Path, target: Target, stack: contextlib.ExitStack) -> Embed:
    session = stack.enter_context(RemoteSession(path, target)) if target.interpreter else open_session(path, target)
    return lambda feed: session.run(None, dict(feed))[0]


def made_up_feed() -> Feed:
    """Return a text of `SEQUENCE` random tokens."""
    ids = np.random.default_rng(0).integers(0, 30522, (1, SEQUENCE))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--store", type=Path, default=ROOT / "artifacts", help="store with the results of pipelines/bert.yaml"
    )
    parser.add_argument("--rounds", type=int, default=20, help="blocks of inferences of each form")
    parser.add_argument("--threads", type=int, default=1, help="threads of each form")
    options = parser.parse_args(arguments)
    paths = {name: options.store / "out" / "bert" / stage / "model.onnx" for stage, name in FORMS.items()}
    missing = [str(path) for path in paths.values() if not path.exists()]
    if missing:
        parser.error(f"{missing[0]} is not there: orun pipelines/bert.yaml --store {options.store}")
    from pipelines import docs

    modules, size = torch_models(options.threads)
    forms = {name: (path, cpu(options.threads)) for name, path in paths.items()}
    for precision in PRECISIONS:
        forms[f"OpenVINO, {precision}"] = paths[FORMS["simplify"]], openvino(options.threads, precision)
    blocks = times(forms, modules, made_up_feed(), options.rounds, options.threads)
    share = 0.5 if options.threads == 1 else WALL_QUANTILE
    spent = {name: float(np.quantile(np.concatenate(each), share)) for name, each in blocks.items()}
    with contextlib.ExitStack() as stack:
        sessions = {name: _session(*form, stack) for name, form in forms.items()}
        qualities = quality({**modules, **sessions}, docs.pairs())
    sizes = dict.fromkeys(modules, size) | {name: path.stat().st_size for name, (path, _) in forms.items()}
    rows = [
        [
            name,
            f"{seconds * 1000:.2f}",
            f"{spent[TORCH] / seconds:.2f}",
            f"{spent[FORMS['export']] / seconds:.2f}",
            f"{sizes[name] / 1e6:.1f}",
            f"{qualities[name].mean:.5f}",
            f"{qualities[name].least:.5f}",
            f"{qualities[name].recall:.1%}",
        ]
        for name, seconds in spent.items()
    ]
    unit = "CPU ms" if options.threads == 1 else "wall ms"
    head = ["form", unit, "speed-up to PyTorch", "to the export", "MB", "cosine, mean", "least", "recall@1"]
    print(machine(), f"{options.threads} threads", table(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
