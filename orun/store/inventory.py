"""Inventory of a store: its records and runs, and the objects that they need."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orun.errors import StoreError
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import convert_os_errors, is_os_error
from orun.fs.signatures import Signature
from orun.store.checksummed_json import read_record
from orun.store.layout import RECORD_FILE
from orun.store.records import Action
from orun.store.store import Store


@dataclass(frozen=True)
class ActionRecord:
    """An action record and its file."""

    path: str
    signature: Signature
    action: Action


@dataclass(frozen=True)
class Run:
    """A finished run."""

    id: str  # name of its folder
    pipeline: str  # its name
    file: str  # of the pipeline
    started_at: float  # seconds since the epoch
    trees: frozenset[str]  # digests of the results of its stages
    built: frozenset[str]  # those that this run made
    repeats: str  # id of the run whose results it found unchanged; empty if it checked each stage


@dataclass(frozen=True)
class Inventory:
    """Records and runs of a store."""

    store: Store
    records: tuple[ActionRecord, ...]
    runs: tuple[Run, ...]

    def find_last_uses(self) -> dict[str, float]:
        """Return when each tree was made or used last, in seconds since the epoch."""
        used: dict[str, float] = defaultdict(float)
        for record in self.records:
            used[record.action.tree] = max(used[record.action.tree], record.action.started_at)
        for run in self.runs:
            for tree in run.trees:
                used[tree] = max(used[tree], run.started_at)
        return dict(used)

    def list_last_runs(self, count: int) -> list[Run]:
        """Return so many last runs of each pipeline."""
        by_pipeline: dict[str, list[Run]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.id, reverse=True):
            by_pipeline[run.pipeline].append(run)
        return [run for runs in by_pipeline.values() for run in runs[:count]]

    def list_objects(self, tree: str) -> set[str]:
        """Return the objects that a tree and its records need."""
        content = self.store.read_tree(tree)
        return {tree, *(content.objects if content else ()), *self._logs.get(tree, ())}

    @functools.cached_property
    def _logs(self) -> dict[str, list[str]]:
        logs: dict[str, list[str]] = defaultdict(list)
        for record in self.records:
            logs[record.action.tree].append(record.action.log)
        return logs


def read_inventory(store: Store) -> Inventory:
    """Read all records and runs of a store. Damaged ones are moved to quarantine or reported in its notices.

    Raises:
        StoreError: if one cannot be read, because the objects that it needs are not known.
    """
    with convert_os_errors("read what is in the store", store.root):
        records = tuple(ActionRecord(*record) for record in store.parts.actions.iter_all())
        return Inventory(store, records, tuple(_read_runs(store)))


def _read_runs(store: Store) -> Iterator[Run]:
    for folder in store.list_runs():
        path = folder / RECORD_FILE
        if not stat_presence(path):
            continue  # it is running, or was killed
        try:
            record: Mapping[str, Any] = read_record(path)
            stages = [stage for stage in record["stages"] if "tree" in stage]
            yield Run(
                folder.name,
                record["pipeline"],
                record["file"],
                record["started_at"],
                trees=frozenset(stage["tree"] for stage in stages),
                built=frozenset(stage["tree"] for stage in stages if stage["outcome"] == "built"),
                repeats=record.get("repeats", ""),
            )
        except StoreError as error:
            if is_os_error(error):
                raise
            store.notices.append(f"run {folder.name} does not count as one of the last: {error.problem}")
        except (KeyError, TypeError):
            store.notices.append(f"run {folder.name} does not count as one of the last: its record has another form")
