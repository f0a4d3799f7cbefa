"""Retention rules of garbage collection: accepted baselines with their runs, and releases."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orun.core.run_record import ASIDE
from orun.errors import StoreError
from orun.fs.os_errors import is_refusal
from orun.gates.baseline_file import path_beside, read_file
from orun.stages.release._manifest import MANIFEST, release_of
from orun.store import Store
from orun.store.inventory import Survey
from orun.text.suggestions import near


@dataclass(frozen=True)
class Root:
    """An artifact that is kept with all that it consists of: the digest of its tree, and why."""

    tree: str
    why: str


def accepted(survey: Survey, further: Iterable[Path]) -> tuple[Root, ...]:
    """The models that baselines name: those beside every pipeline file that a run of the store names, and further ones.

    Args:
        survey: what is in the store.
        further: baseline files of pipelines that ran elsewhere.

    Raises:
        PipelineError: when a baseline is damaged: what it kept is not known.
    """
    return tuple(root for path in sorted(_baselines(survey, further)) for root in _models(path))


def accepted_runs(survey: Survey, further: Iterable[Path]) -> frozenset[str]:
    """Ids of the runs that baselines were accepted from, and of the last run beside each, which tells where it is.

    Args:
        survey: what is in the store.
        further: baseline files of pipelines that ran elsewhere.

    Raises:
        PipelineError: when a baseline is damaged.
    """
    read = {path: found for path in _baselines(survey, further) if (found := read_file(path))}
    beside = {path_beside(Path(run.file)): run.id for run in sorted(survey.runs, key=lambda run: run.id)}
    accepted_from = {one.run for baseline in read.values() for one in baseline.stages.values()}
    return frozenset(accepted_from | {run for path, run in beside.items() if path in read})


def _baselines(survey: Survey, further: Iterable[Path]) -> set[Path]:
    return {path_beside(Path(run.file)) for run in survey.runs} | {path.absolute() for path in further}


def lost(survey: Survey) -> tuple[str, ...]:
    """What cannot be known of baselines, one sentence each: of pipelines none of whose files is where it ran."""
    files: dict[str, set[str]] = defaultdict(set)
    for run in survey.runs:
        if not run.pipeline.endswith(ASIDE):
            files[run.pipeline].add(run.file)
    gone = {name: paths for name, paths in sorted(files.items()) if not any(map(os.path.exists, paths))}
    return tuple(
        f"{', '.join(sorted(paths))} is not there any more, so what was accepted for {name} is not known; "
        "to keep it: --baseline FILE"
        for name, paths in gone.items()
    )


def _models(path: Path) -> Iterator[Root]:
    baseline = read_file(path)
    for stage, one in baseline.stages.items() if baseline else ():
        if one.model:
            yield Root(one.model, f"accepted for {stage} in {near(str(path))}")


def releases(survey: Survey, last: int | None = None) -> tuple[Root, ...]:
    """The bundles that carry a version; of each name those of the so many last versions, or all."""
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    used = survey.last_used()
    for tree in sorted(used, key=lambda tree: -used[tree]):
        if release := _release(survey.store, tree):
            versions[release[0]][release[1]].append(tree)
    return tuple(
        Root(tree, f"release {version} of {name}")
        for name, trees in sorted(versions.items())
        for version in list(trees)[:last]
        for tree in trees[version]
    )


def _release(store: Store, digest: str) -> tuple[str, str] | None:
    """Name and version of the bundle that a tree is; None when it is none, has no version, or is not whole."""
    tree = store.tree(digest)
    manifest = next((entry.digest for entry in tree.entries if entry.path == MANIFEST), None) if tree else None
    if manifest is None:
        return None
    try:
        return release_of(store.read(manifest))
    except StoreError as error:
        if is_refusal(error):
            raise
        store.notices.append(f"artifact {digest} does not count as a release: {error.what}")
        return None
