"""Artifacts where people open them, in a store that others use as well."""

from __future__ import annotations

from pathlib import Path

from orun.core.serialization import replace
from orun.runner.output_checkouts import OutputCheckouts
from orun.store import Store
from tests.project import Project
from tests.store.support import add


def test_outputs_of_other_runs_go_however_often_they_came(tmp_path: Path) -> None:
    """Of two that came one after the other, the second was in a folder of the same number as that of this run."""
    project = Project.make(tmp_path / "project")
    project.run()
    with Store.open(project.store) as store, Store.open(project.store) as other:
        action = store.find_latest("text", "make")
        assert action
        trees = [add(other, {"text": text}) for text in (b"mine", b"second", b"third", b"fourth")]
        checkouts = OutputCheckouts(store, "text")
        for count in (1, 2, 3):
            checkouts.put("make", replace(action, tree=trees[0]))
            for tree in trees[1 : 1 + count]:
                other.check_out(tree, "text", "make")
            assert len(list(checkouts.restore_replaced())) == 1
            assert project.text("make") == "mine"
