"""Retention rules of garbage collection: accepted baselines with their runs, and releases."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orun.core.run_record import INVESTIGATIONS
from orun.errors import StoreError
from orun.fs.os_errors import is_os_error
from orun.gates.baseline_file import locate_baseline, read_file
from orun.stages.release._manifest import MANIFEST, parse_release
from orun.store import Store
from orun.store.inventory import Inventory
from orun.text.suggestions import show_path


@dataclass(frozen=True)
class Root:
    """Artifact that garbage collection keeps: the digest of its tree, and why."""

    tree: str
    why: str


def list_accepted(inventory: Inventory, more_baselines: Iterable[Path]) -> tuple[Root, ...]:
    """Return the models that baselines name: those beside the files of the runs in the store, and further ones.

    Raises:
        PipelineError: if a baseline is damaged, so that it is unknown what it keeps.
    """
    return tuple(root for path in sorted(_list_baselines(inventory, more_baselines)) for root in _iter_models(path))


def list_accepted_runs(inventory: Inventory, more_baselines: Iterable[Path]) -> frozenset[str]:
    """Return the runs that baselines were accepted from, and the last run of each baseline's pipeline.

    By that run the baseline is found.

    Raises:
        PipelineError: if a baseline is damaged.
    """
    baselines = {path: baseline for path in _list_baselines(inventory, more_baselines) if (baseline := read_file(path))}
    last_runs = {locate_baseline(Path(run.file)): run.id for run in sorted(inventory.runs, key=lambda run: run.id)}
    accepted_from = {stage.run for baseline in baselines.values() for stage in baseline.stages.values()}
    return frozenset(accepted_from | {run for path, run in last_runs.items() if path in baselines})


def _list_baselines(inventory: Inventory, more_baselines: Iterable[Path]) -> set[Path]:
    return {locate_baseline(Path(run.file)) for run in inventory.runs} | {path.absolute() for path in more_baselines}


def list_unknown_baselines(inventory: Inventory) -> tuple[str, ...]:
    """Return a sentence for each pipeline whose baseline is unknown because no file of it is where it ran."""
    files: dict[str, set[str]] = defaultdict(set)
    for run in inventory.runs:
        if not run.pipeline.endswith(INVESTIGATIONS):
            files[run.pipeline].add(run.file)
    gone = {name: paths for name, paths in sorted(files.items()) if not any(map(os.path.exists, paths))}
    return tuple(
        f"{', '.join(sorted(paths))} no longer exists, so it is not known what was accepted for {name}; "
        "to keep it: --baseline FILE"
        for name, paths in gone.items()
    )


def _iter_models(path: Path) -> Iterator[Root]:
    baseline = read_file(path)
    for name, stage in baseline.stages.items() if baseline else ():
        if stage.model:
            yield Root(stage.model, f"accepted for {name} in {show_path(str(path))}")


def list_releases(inventory: Inventory, last: int | None = None) -> tuple[Root, ...]:
    """Return the bundles that carry a version: of each name the `last` versions, or all if None."""
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    used = inventory.find_last_uses()
    for tree in sorted(used, key=lambda tree: -used[tree]):
        if release := _read_release(inventory.store, tree):
            versions[release[0]][release[1]].append(tree)
    return tuple(
        Root(tree, f"release {version} of {name}")
        for name, trees in sorted(versions.items())
        for version in list(trees)[:last]
        for tree in trees[version]
    )


def _read_release(store: Store, digest: str) -> tuple[str, str] | None:
    """Return name and version of a bundle; None for any other tree, without a version, or if it is damaged."""
    tree = store.read_tree(digest)
    manifest = next((entry.digest for entry in tree.entries if entry.path == MANIFEST), None) if tree else None
    if manifest is None:
        return None
    try:
        return parse_release(store.read(manifest))
    except StoreError as error:
        if is_os_error(error):
            raise
        store.notices.append(f"artifact {digest} does not count as a release: {error.problem}")
        return None
