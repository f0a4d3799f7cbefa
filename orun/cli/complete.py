"""Completion of words on the command line: files, stages, runs, metrics, paths of --set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.errors import OrunError

if TYPE_CHECKING:
    from orun.pipeline.model import Pipeline

NEWEST = 20  # runs that are offered


def complete_file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the pipeline files and folders that start with the typed text."""
    return list_pipeline_files(incomplete)


def list_pipeline_files(incomplete: str) -> list[str]:
    """Return the YAML files, and the folders, that start with the typed text."""
    folder = incomplete[: incomplete.rfind(os.sep) + 1]
    try:
        with os.scandir(folder or os.curdir) as entries:
            names = [entry.name + os.sep * entry.is_dir() for entry in entries if not entry.name.startswith(".")]
    except OSError:  # no such folder: nothing to offer
        return []
    files = (name for name in names if name.endswith((".yaml", ".yml", os.sep)))
    return sorted(f"{folder}{name}" for name in files if f"{folder}{name}".startswith(incomplete))


def complete_stage(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the stages, of the file on the same command line, that start with the typed text."""
    pipeline = _load_pipeline(ctx)
    return [stage.id for stage in pipeline.stages if stage.id.startswith(incomplete)] if pipeline else []


def complete_override(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the paths for --set that start with the typed text: variables, and parameters of stages."""
    pipeline = _load_pipeline(ctx)
    return [f"{path}=" for path in _iter_paths(pipeline) if path.startswith(incomplete)] if pipeline else []


def complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return `last`, `last~1` and the ids of the newest runs that start with the typed text."""
    from orun.core.run_record import is_users
    from orun.store import Store
    from orun.store.layout import VERSION_FILE, locate_store

    root = locate_store(ctx.params.get("store"))
    if not (root / VERSION_FILE).is_file():
        return []
    with Store.open(root, read_only=True) as store:
        ids = [folder.name for folder in store.iter_ended_runs(is_users)][:NEWEST]
    return [name for name in ("last", "last~1", *ids) if name.startswith(incomplete)]


def complete_target(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the short names of execution providers that start with the typed text."""
    from orun.scaffold.targets import list_target_names

    return [name for name in list_target_names() if name.startswith(incomplete)]


def complete_metric(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the metrics in the history that start with the typed text, `latency.p50` and `p50`."""
    from orun.history import History, locate_history
    from orun.store.layout import locate_store

    root = locate_store(ctx.params.get("store"))
    try:
        names = History(locate_history(root)).read_names()
    except OrunError:  # there is no history
        return []
    metrics = dict.fromkeys([*(f"{stage}.{name}" for stage, name in names), *(name for _, name in names)])
    return [name for name in metrics if name.startswith(incomplete)]


def _load_pipeline(ctx: click.Context) -> Pipeline | None:
    """Return the pipeline of the file on the command line; None if it has mistakes, which are reported elsewhere."""
    file = ctx.params.get("file") or next(iter(ctx.args), "")  # click leaves it in `args` after a bare option
    if not file:
        return None
    from orun.pipeline import load

    try:
        return load(Path(file))
    except OrunError:
        return None


def _iter_paths(pipeline: Pipeline) -> Iterator[str]:
    import yaml

    from orun.pipeline.model import Gate

    tree = yaml.safe_load(pipeline.file.read_bytes())
    variables = tree.get("vars") if isinstance(tree, dict) else None
    yield from (f"vars.{name}" for name in variables or ())
    for stage in pipeline.stages:
        if "[" in stage.id:  # of a matrix, whose values a path does not reach
            continue
        yield from (f"stages.{stage.id}.with.{name}" for name in stage.params)
        yield from (
            f"stages.{stage.id}.gate.{gate.metric}.{gate.rule}" for gate in stage.gates if isinstance(gate, Gate)
        )
