"""Planner of a pipeline, with its store and its accepted baseline."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from orun.gates import baselines
from orun.pipeline.graph import select
from orun.pipeline.model import Pipeline
from orun.planning.planner import Planner
from orun.store import Store


def open_planner(
    pipeline: Pipeline,
    root: Path,
    force: Collection[str] = (),
    *,
    fresh: bool = False,
    read_only: bool = False,
    past_gates: bool = False,
) -> Planner:
    """Open the store, read the baseline, and return the planner.

    Args:
        pipeline: the pipeline.
        root: the store's folder.
        force: stages to run whatever is stored, as the command line names them.
        fresh: measure again what is bound to this host.
        read_only: whether nothing may be written to the store.
        past_gates: whether stages that only measure or check run behind a failed gate.

    Raises:
        UsageError: when a stage to force is not in the pipeline.
        StoreError: when the store cannot be opened.
    """
    store = Store.open(root, read_only=read_only)
    forced = [stage.id for stage in select(pipeline, only=force)] if force else []
    return Planner(pipeline, store, baselines.read(pipeline), force=forced, fresh=fresh, past_gates=past_gates)
