"""Trial of a model as a server runs it: whether batches change its answers, and its answers on the release's data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.targets import Target
from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages._graph.io import load_graph
from orun.stages._graph.signature import count_axes
from orun.stages.contract import MODEL, Context
from orun.stages.datasets import load_dataset
from orun.stages.timing import Sizes, make_feeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Run = tuple[Mapping[str, Array], Mapping[str, Array], float]

ROWS = 3  # of the batch that is compared with its single rows
TOLERANCE = 1e-4  # absolute, and relative to the largest value of an output


def check_batches(context: Context, folder: Path, target: Target, data: Examples | None) -> None:
    """Run a model on a batch and on each of its rows alone; note if the answers differ.

    Raises:
        UsageError: if an output does not have a row for each row of the inputs.
    """
    import numpy as np

    from orun.measure.session import open_session

    dataset = load_dataset(replace(context, inputs={"model": folder}), data) if data else None
    feed = make_feeds({"model": folder / MODEL}, Sizes(ROWS), context.seed, dataset)["model"]
    session = open_session(folder / MODEL, target)
    names = [item.name for item in session.get_outputs()]
    joined = dict(zip(names, map(np.asarray, session.run(names, feed)), strict=True))
    for name, value in joined.items():
        if value.shape[:1] != (ROWS,):
            raise UsageError(
                f"`max_batch_size` needs a row of output {name!r} for each row of the inputs",
                why=f"for {ROWS} rows its shape is {list(value.shape)}",
                hint="set `max_batch_size: 0`",
            )
    rows = [session.run(names, {key: array[row : row + 1] for key, array in feed.items()}) for row in range(ROWS)]
    alone = {name: np.concatenate([row[place] for row in rows]) for place, name in enumerate(names)}
    if differences := "; ".join(_iter_differences(joined, alone)):
        context.note(differences)


def _iter_differences(joined: Mapping[str, Array], alone: Mapping[str, Array]) -> Iterator[str]:
    import numpy as np

    for name, value in joined.items():
        if value.dtype.kind not in "fc":
            if changed := int((value != alone[name]).sum()):
                yield f"batches change the answers: {changed} of {value.size} values of output {name!r}"
            continue
        error = float(np.nanmax(np.abs(value.astype(np.float64) - alone[name]), initial=0.0))
        scale = float(np.nanmax(np.abs(value.astype(np.float64)), initial=0.0))
        if error > TOLERANCE * (1 + scale):
            yield f"batches change the answers: output {name!r} by up to {error:.2g}, and its values reach {scale:.2g}"


def run_examples(context: Context, folder: Path, target: Target, data: Examples) -> Iterator[Run]:
    """Yield inputs, outputs and seconds of examples of a dataset, each as a request of its own."""
    import numpy as np

    from orun.measure.session import open_session
    from orun.stages.release._reference import take_feeds

    session = open_session(folder / MODEL, target)
    names = [item.name for item in session.get_outputs()]
    for feed in take_feeds(replace(context, inputs={"model": folder}), data, count_axes(load_graph(folder / MODEL))):
        start = time.perf_counter()
        values = session.run(names, feed)
        yield feed, dict(zip(names, map(np.asarray, values), strict=True)), time.perf_counter() - start
