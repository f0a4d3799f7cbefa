"""Verification of a whole store by reading it, for `orun store verify`."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from orun.errors import StoreError
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import convert_os_errors, is_os_error
from orun.store.checksummed_json import read_record
from orun.store.layout import RECORD_FILE
from orun.store.records import ActionSet
from orun.store.store import Store


@dataclass(frozen=True)
class Verified:
    """Result of a verification."""

    objects: int  # their number
    size: int  # of all objects, in bytes
    records: int  # number of intact action records
    problems: tuple[str, ...]  # one sentence each; damaged files are in quarantine
    remote: int = 0  # records whose artifact a run on other machines has left in a remote


def verify(store: Store, in_remotes: ActionSet = ()) -> Verified:
    """Read all objects and records, move damaged ones to quarantine; report incomplete artifacts that no remote has.

    Raises:
        StoreError: if the store cannot be read.
    """
    with convert_os_errors("verify the store", store.root):
        sizes = {digest: status.st_size for digest, status in store.parts.objects.iter_all()}
        for digest in sizes:
            store.parts.objects.find_problem(digest, read=True)
        records = [action for _, _, action in store.parts.actions.iter_all()]
        list(store.parts.actions.iter_pointers())
        store.parts.index.flush()
    problems = [notice for notice in store.drain_notices() if notice != store.parts.index.problem]  # no damage
    left = 0
    for action in records:
        if action in in_remotes and store.read_tree(action.tree) is None:
            left += 1
            continue
        name = f"{action.pipeline}/{action.stage}"
        problems += (f"the artifact of {name}: {problem}" for problem in store.check(action.tree))
    return Verified(len(sizes), sum(sizes.values()), len(records), (*problems, *_list_bad_runs(store)), left)


def _list_bad_runs(store: Store) -> list[str]:
    problems = []
    for folder in store.list_runs():
        path = folder / RECORD_FILE
        try:
            if stat_presence(path):
                read_record(path)
        except StoreError as error:
            cause = error.__cause__
            if is_os_error(error) and isinstance(cause, OSError) and cause.errno != errno.EIO:
                raise  # only a disk error means damage
            problems.append(error.problem)
    return problems
