"""A stage that is not deterministic: the first result of equal inputs wins, and everything says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orun.core.events import Notice
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import decode
from orun.report.stages import format_stage_table
from orun.report.terminal import Terminal
from orun.store import Store
from orun.store.checksummed_json import read_record
from tests.facts import describe_reasons
from tests.project import Project
from tests.store.support import flip, object_path

CODE = """
import os

from orun import stage


def write(context):
    (context.output / "text").write_bytes(os.urandom(32))


@stage(inputs={}, output="files")
def roll(context):
    write(context)


@stage(inputs={}, output="files", deterministic=False)
def declared(context):
    write(context)


@stage(inputs={}, output="files", stage_class="measurement")
def measured(context):
    write(context)


@stage(inputs={}, output="metrics", deterministic=False)
def weighed(context):
    write(context)
    return {"bytes": len(os.urandom(32))}


@stage(inputs={}, output="files")
def steady(context):
    (context.output / "text").write_text("the same")
"""
PIPELINE = """
name: dice
stages:
  roll: {{uses: ./stages.py:{kind}}}
"""


@pytest.fixture
def kind() -> str:
    return "roll"


@pytest.fixture
def project(tmp_path: Path, kind: str) -> Project:
    project = Project.make(tmp_path / "project", PIPELINE.format(kind=kind))
    project.write("stages.py", CODE)
    return project


def text(project: Project) -> bytes:
    return (project.store / "out" / "dice" / "roll" / "text").read_bytes()


def notices(project: Project) -> list[str]:
    return [event.text for event in project.events if isinstance(event, Notice)]


def advice(project: Project, stage: StageResult) -> str:
    return (
        "it is not deterministic, or reads something that orun cannot see; to compare: "
        f"orun verify {project.folder}/pipeline.yaml --rebuild roll --store {project.store}; to build it anew: "
        f"rm -r {project.store}/actions/{stage.key[:2]}/{stage.key}"
    )


def record(result: RunResult) -> Mapping[str, Any]:
    """The stage as the record of the run on the disk has it."""
    stages: list[dict[str, Any]] = read_record(result.folder / "record.json")["stages"]
    return stages[0]


def test_the_first_result_is_kept(project: Project) -> None:
    first = project.run()["roll"]
    text_built = text(project)
    assert first.other_trees == ()
    again = project.run(force=["roll"])
    (other,) = again["roll"].other_trees
    assert (again["roll"].outcome, again["roll"].tree) == ("built", first.tree)
    assert other != first.tree
    assert text(project) == text_built
    (notice,) = notices(project)
    assert notice == (
        f"roll was rebuilt differently from the same inputs: kept the first ({first.tree[:12]}), "
        f"not the new result ({other[:12]}); {advice(project, first)}"
    )
    assert record(again)["other_trees"] == [other]
    with Store.open(project.store) as store:
        (action,) = store.list_actions(first.key)
    assert (action.tree, action.other_trees, action.started_at) == (first.tree, (other,), first.built_at)
    third = project.run(force=["roll"])["roll"]
    assert (third.tree, len(third.other_trees), third.other_trees[0]) == (first.tree, 2, other)
    later = project.run()
    assert (later["roll"].outcome, later["roll"].other_trees) == ("cached", third.other_trees)
    assert "cached, not deterministic" in format_stage_table(later, Terminal())[1]


@pytest.mark.parametrize("kind", ["declared"])
def test_a_kind_that_says_so_is_not_warned_about(project: Project) -> None:
    first = project.run()["roll"]
    again = project.run(force=["roll"])["roll"]
    assert (again.tree, len(again.other_trees)) == (first.tree, 1)
    assert notices(project) == []


@pytest.mark.parametrize("kind", ["measured", "weighed"])
def test_a_measurement_is_replaced(project: Project) -> None:
    first = project.run()["roll"]
    again = project.run(force=["roll"])["roll"]
    assert again.tree != first.tree
    assert again.other_trees == ()
    assert notices(project) == []


@pytest.mark.parametrize("kind", ["steady"])
def test_a_steady_stage_has_no_others(project: Project) -> None:
    first = project.run()["roll"]
    again = project.run(force=["roll"])["roll"]
    assert (again.tree, again.other_trees) == (first.tree, ())
    assert again.built_at > first.built_at


def test_when_the_first_is_lost_the_new_one_is_stored_and_differs(project: Project) -> None:
    first = project.run()["roll"]
    with Store.open(project.store) as store:
        tree = store.read_tree(first.tree)
        assert tree
        flip(object_path(store, tree.entries[0].digest))
    again = project.run()
    second = again["roll"]
    assert (second.outcome, second.other_trees) == ("built", (first.tree,))
    assert describe_reasons(second.reasons) == ("its stored result is damaged: text is missing from the store",)
    (notice,) = (text for text in notices(project) if text.startswith("roll was"))
    assert notice == (
        f"roll was rebuilt differently from the same inputs: the first result ({first.tree[:12]}) is damaged, "
        f"so the new one ({second.tree[:12]}) was stored; {advice(project, first)}"
    )
    assert decode(StageResult, record(again)) == second
    line = json.loads((again.folder / "events.jsonl").read_text().splitlines()[-2])
    assert line["result"]["other_trees"] == [first.tree]
    assert project.run()["roll"].tree == second.tree
