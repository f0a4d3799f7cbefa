"""Parts of a store, and their assembly."""

from __future__ import annotations

from pathlib import Path

from orun.core.serialization import Record
from orun.fs.flushing import Flushing
from orun.store.actions import Actions
from orun.store.checkouts import Checkouts
from orun.store.index import Index
from orun.store.materialize import Materializer
from orun.store.objects import Objects
from orun.store.quarantine import Quarantine
from orun.store.runs import Runs
from orun.store.session_directory import Session
from orun.store.trees import Trees


class Parts(Record, frozen=True):
    """Parts of a `Store`, also used by its maintenance (`gc`, `verify`, `stats`)."""

    index: Index
    quarantine: Quarantine
    session: Session
    flushing: Flushing
    objects: Objects
    trees: Trees
    actions: Actions
    materializer: Materializer
    checkouts: Checkouts
    runs: Runs


def assemble(root: Path, notices: list[str], *, read_only: bool = False) -> Parts:
    """Return the parts of a store, which add their notices to a list."""
    index = Index(root / "index", notices, read_only=read_only)
    quarantine = Quarantine(root / "quarantine", notices, read_only=read_only)
    session, flushing = Session(root, read_only=read_only), Flushing()
    objects = Objects(str(root / "objects"), index, session, quarantine, flushing)
    materializer = Materializer(objects, index, session)
    return Parts(
        index=index,
        quarantine=quarantine,
        session=session,
        flushing=flushing,
        objects=objects,
        trees=Trees(objects, session),
        actions=Actions(root, session, quarantine, flushing),
        materializer=materializer,
        checkouts=Checkouts(root, objects, index, materializer, session, quarantine),
        runs=Runs(root / "runs"),
    )
