"""Run ids on the command line: the beginning of an id, or a count back from the last run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.run_record import BY_INIT, is_users
from orun.errors import UsageError
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import quote
from orun.store.layout import RECORD_FILE, store_option
from orun.text.counts import count
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.core.run_record import RunResult
    from orun.store import Store

LAST = re.compile(r"last(?:~(\d+))?")


def find(store: Store, reference: str) -> Path:
    """Return the folder of the run that is meant.

    Args:
        store: where runs are.
        reference: the beginning of an id, `last`, or `last~2` for the second before it, of the same pipeline. Runs that
            did not end, those by which `orun blame` and `orun bisect` look into others, and those by which `orun init`
            measures, are not counted.

    Raises:
        UsageError: when there is no such run, or more than one.
    """
    refuse_pipeline_file(reference)
    last = LAST.fullmatch(reference)
    return _find_from_end(store, int(last[1] or 0)) if last else store.run(reference)


def read_run(store: Store, reference: str) -> RunResult:
    """Return the record of the run that is meant; raises as `find_ended` does."""
    from orun.eventlog import read_result

    return read_result(find_ended(store, reference))


def refuse_pipeline_file(reference: str) -> None:
    """Refuse a pipeline file where a run is meant."""
    if reference.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{reference} is a pipeline file, not a run",
            why="expected the beginning of a run's id; last, or last~1 for the run before it; or a record of a run",
            hint="without it, the last runs are meant",
        )


def find_ended(store: Store, reference: str) -> Path:
    """Return the folder of the run that is meant; raises as `find` does, and UsageError when the run has no record."""
    folder = find(store, reference)
    if not stat_presence(folder / RECORD_FILE):
        raise UsageError(
            f"the run {folder.name} has no record: it goes on, or was killed",
            hint="name one that has ended: last is the last of them, last~1 the one before",
        )
    return folder


def _find_from_end(store: Store, before: int) -> Path:
    from orun.eventlog import read_result

    pipeline, file, passed = "", "", 0
    for folder in store.iter_ended_runs(is_users):
        result = read_result(folder)
        pipeline, file = pipeline or result.pipeline, file or result.file
        if result.pipeline == pipeline:
            if passed == before:
                return folder
            passed += 1
    runs = f"{count(passed, 'run')} of {pipeline}" if passed else "no run that has ended"
    by_init = any(store.iter_ended_runs(lambda name: name.endswith(BY_INIT)))
    again = f"to run it again: orun {quote(show_path(file))}{store_option(store.root, Path(file).parent)}"
    raise UsageError(
        f"there is no last~{before}" if before else "there is no last run",
        why=f"the store has {runs}" + (", besides those of orun init" if by_init else ""),
        hint=again if passed else "orun FILE, or where the store is: --store DIR",
    )
