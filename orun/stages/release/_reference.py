"""Reference of a release: statistics of the inputs and outputs of its own examples, row by row.

`orun watch` compares the log of a server with it. The statistics are those of the server's log, computed by the same
code.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.stages.contract import MODEL, Context
from orun.stages.release._manifest import REFERENCE, write_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.stages._data.source import Examples

    Arrays = Mapping[str, NDArray[Any]]

FORMAT = 1
MOST = 2000  # examples that are run; more tell little more
FEWEST = 20  # examples: with fewer hardly any drift could be told


def add_reference(context: Context, examples: Examples) -> None:
    """Run the model on its examples and write `reference.json`; latencies are not in it.

    Raises:
        StageFailed: when there are too few examples.
        UsageError: when they do not fit the model.
    """
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.sessions import open_model
    from orun.stages._graph.signature import build_inputs

    graph = load_graph(context.model())
    outputs = [output.name for output in graph.graph.output]
    run = open_model(context.model(), outputs)
    feeds = take_feeds(context, examples, {item.name: len(item.shape) for item in build_inputs(graph)})
    results = ((feed, dict(zip(outputs, run(feed), strict=True)), None) for feed in feeds)
    write_reference(context.output, results)


def take_feeds(context: Context, examples: Examples, ranks: Mapping[str, int]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the examples that a reference needs, one at a time: all of them, or a choice of `MOST`."""
    from orun.stages._graph.feeds import take_example
    from orun.stages.datasets import format_title, load_dataset

    dataset = load_dataset(context, examples, tuple(ranks))
    if len(dataset) < FEWEST:
        problem = (
            f"{format_title(examples)} has {len(dataset)} examples, and a reference for `orun watch` needs {FEWEST}"
        )
        raise context.failed(problem, hint="leave out `data`, or name more examples")
    numbers: Sequence[int] = range(len(dataset))
    if len(numbers) > MOST:
        numbers = sorted(random.Random(context.seed).sample(numbers, MOST))  # noqa: S311 - no secret
    for done, number in enumerate(numbers):
        context.progress(done, len(numbers), "examples run")
        yield take_example(dataset.inputs, number, ranks)


def write_reference(folder: Path, runs: Iterable[tuple[Arrays, Arrays, float | None]], model: str = MODEL) -> None:
    """Write `reference.json`.

    Args:
        folder: that of the release.
        runs: for each example its inputs and outputs, as a request of its own, and the seconds from the request to the
            response; None if they were not measured, in all examples alike.
        model: path of the model in the folder.
    """
    from orun.stages.release._server.sample_log import summarize

    choice = random.Random(0)  # noqa: S311 - no secret
    summaries = []
    seconds = []
    for inputs, outputs, time in runs:
        summaries.append(summarize(inputs, outputs, choice))
        seconds += [] if time is None else [float(f"{time:.3g}")]
    content: dict[str, Any] = {"format": FORMAT, "model": model, "rows": summaries[0]["rows"]}
    for group in ("inputs", "outputs"):
        content[group] = {
            name: _join_columns([summary[group][name] for summary in summaries]) for name in summaries[0][group]
        }
    if seconds:
        content["seconds"] = seconds
    write_json(folder / REFERENCE, content)


def _join_columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries of an array, one for each example, by statistic."""
    names = dict.fromkeys(name for entry in entries for name in entry if name not in ("type", "shape"))
    statistics = {name: [entry.get(name) for entry in entries] for name in names}
    return {"type": entries[0]["type"], "statistics": statistics}
