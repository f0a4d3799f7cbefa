"""Reading a whole store, whatever the index says: what `orun store verify` does."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from orun.errors import StoreError
from orun.fs.observed_state import seen_at
from orun.fs.os_errors import convert_os_errors, is_os_error
from orun.store.checksummed_json import read_record
from orun.store.layout import RECORD_FILE
from orun.store.store import Store


@dataclass(frozen=True)
class Verified:
    """What was read and what was found.

    Attributes:
        objects: how many were read.
        size: their bytes.
        records: how many records of actions are whole.
        problems: what is damaged or missing, one sentence each; damaged files are in quarantine now.
    """

    objects: int
    size: int
    records: int
    problems: tuple[str, ...]


def verify(store: Store) -> Verified:
    """Read every object and every record, put away what is damaged, and name the artifacts that lack something.

    Raises:
        StoreError: when the store cannot be read.
    """
    with convert_os_errors("verify the store", store.root):
        found = [(digest, status.st_size) for digest, status in store.parts.objects.all()]
        for digest, _ in found:
            store.parts.objects.problem(digest, read=True)
        records = [action for _, _, action in store.parts.actions.all()]
        list(store.parts.actions.pointers())
        store.parts.index.flush()
    problems = [notice for notice in store.drain_notices() if notice != store.parts.index.problem]  # no damage
    for action in records:
        where = f"{action.pipeline}/{action.stage}"
        problems += (f"the artifact of {where}: {problem}" for problem in store.check(action.tree))
    return Verified(len(found), sum(size for _, size in found), len(records), (*problems, *_bad_runs(store)))


def _bad_runs(store: Store) -> list[str]:
    problems = []
    for folder in store.runs():
        path = folder / RECORD_FILE
        try:
            if seen_at(path):
                read_record(path)
        except StoreError as error:
            cause = error.__cause__
            if is_os_error(error) and isinstance(cause, OSError) and cause.errno != errno.EIO:
                raise  # what a disk does not give is damaged; of the rest nothing is known
            problems.append(error.what)
    return problems
