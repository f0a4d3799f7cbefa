"""The short way: a run with nothing to do, recognized from a note of the run before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import orun
from orun.core.events import Event, Notice, RunStarted, StageFinished
from orun.core.serialization import replace
from orun.errors import StoreError
from orun.fs.signatures import CLOCK
from orun.gates import baselines
from orun.gates.baseline_file import Baseline, write_file
from orun.noop import check
from orun.noop import record as noop_record
from orun.noop.check import Request
from orun.pipeline.model import Pipeline
from orun.planning.plan import Done
from orun.planning.planner import Planner
from orun.store import Store, integrity_snapshot, stat_cache
from orun.store.checksummed_json import decode_checksummed, encode_checksummed
from orun.store.integrity_snapshot import IntegritySnapshot
from tests.facts import describe_reasons
from tests.project import Project, outcomes
from tests.store.support import bytes_read, flip, needs_proc

WRITE = """(context.output / "text").write_text(text)
    (context.output / "big").write_bytes(bytes({size}))"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project of which everything is built, and its store."""
    folder = tmp_path_factory.mktemp("built")
    Project.make(folder / "project").run()
    for note in folder.glob("store/index/run-*.json"):
        note.unlink()
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Project:
    """A project of which everything is built, and the last run was noted."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    project = Project(tmp_path / "project", tmp_path / "store")
    assert outcomes(project.run()) == {"make": "cached", "upper": "cached", "count": "cached"}
    assert project.run().repeats
    return project


def remove_note(project: Project) -> Path:
    """Remove the note of the last run; where it was."""
    (note,) = project.store.glob("index/run-*.json")
    note.unlink()
    return note


def test_the_note_of_another_version_is_not_believed(project: Project) -> None:
    (note,) = project.store.glob("index/run-*.json")
    content = decode_checksummed(note.read_bytes())
    note.write_bytes(encode_checksummed({**content, "format": check.FORMAT + 1}))
    assert not project.run().repeats
    assert project.run().repeats


def test_a_store_of_another_layout_is_not_used(project: Project) -> None:
    before = sorted((project.store / "runs").iterdir())
    (project.store / "VERSION").write_bytes(b"orun store, layout 2, blake3\n")
    with pytest.raises(StoreError, match="has a layout that this version of orun does not know"):
        project.run()
    assert sorted((project.store / "runs").iterdir()) == before


@pytest.mark.parametrize("put", [shutil.copytree, shutil.move], ids=["copied", "moved"])
@pytest.mark.parametrize("lost", [(), ("out",), ("objects", "actions", "out")], ids=["whole", "no out", "no objects"])
def test_a_copied_or_moved_store_answers_from_what_is_in_it(
    project: Project, put: Callable[[Path, Path], object], lost: tuple[str, ...]
) -> None:
    """The files that the note names are those of the first store, whether or not they are still there."""
    other = Project(project.folder, project.store.with_name("other"))
    put(project.store, other.store)
    for name in lost:
        shutil.rmtree(other.store / name)
    result = other.run()
    assert not result.repeats
    outcome = "built" if "objects" in lost else "cached"
    assert outcomes(result) == {"make": outcome, "upper": outcome, "count": outcome}
    assert (other.text("make"), other.text("upper"), other.text("count")) == ("a b", "A B!", "2")
    assert other.run().repeats


def test_a_damaged_object_of_a_copied_store_is_seen(project: Project) -> None:
    other = Project(project.folder, project.store.with_name("other"))
    shutil.copytree(project.store, other.store)
    (damaged,) = (path for path in other.store.glob("objects/*/*") if path.read_bytes() == b"A B!")
    flip(damaged)
    shutil.rmtree(other.store / "out" / "text" / "upper")
    assert outcomes(other.run()) == {"make": "cached", "upper": "built", "count": "cached"}
    assert other.text("upper") == "A B!"


def test_a_run_that_is_gone_is_not_repeated(project: Project) -> None:
    (note,) = project.store.glob("index/run-*.json")
    repeated = decode_checksummed(note.read_bytes())["result"]["repeats"]
    (project.store / "runs" / repeated / "record.json").unlink()
    assert not project.run().repeats


def test_the_record_of_a_repeating_run_is_that_of_the_run_but_for_itself(project: Project) -> None:
    first, second = project.run(), project.run()
    assert first.repeats == second.repeats != ""
    assert first.stages == second.stages
    assert [stage.outcome for stage in first.stages] == ["cached"] * len(first.stages)


def test_what_one_run_built_is_up_to_date_for_the_next(project: Project) -> None:
    project.edit("pipeline.yaml", "text: a b", "text: a b c")
    assert set(outcomes(project.run()).values()) == {"built"}
    result = project.run()
    assert result.repeats
    assert {(stage.outcome, describe_reasons(stage.reasons)) for stage in result.stages} == {
        ("cached", ("up to date",))
    }


def test_the_order_of_overrides_counts(project: Project) -> None:
    """The second replaces what the first has set, so that two orders are two requests."""
    mapping, word = ("stages.make.with", "{text: of all}"), ("stages.make.with.text", "of the word")
    for overrides, text in (([mapping, word], "of the word"), ([word, mapping], "of all")):
        for _ in range(2):
            result = project.run(set=dict(overrides))
            assert project.text("make") == text
        assert result.repeats


@needs_proc
def test_a_run_with_nothing_to_do_reads_no_artifact(project: Project) -> None:
    """Neither on the short way nor on the whole one."""
    size = 2 << 20
    project.edit("stages.py", '(context.output / "text").write_text(text)', WRITE.format(size=size))
    assert "built" in outcomes(project.run()).values()
    for short in (True, False):
        for note in () if short else project.store.glob("index/run-*.json"):
            note.unlink()
        before = bytes_read()
        assert bool(project.run().repeats) == short
        assert bytes_read() - before < size // 4


def test_what_a_dead_process_left_takes_the_whole_way_which_removes_it(project: Project) -> None:
    left = project.store / "tmp" / "1-dead"
    left.mkdir()
    assert not project.run().repeats
    assert not left.exists()
    assert project.run().repeats


def notices(project: Project) -> list[Notice]:
    return [event for event in project.events if isinstance(event, Notice)]


def test_after_a_run_with_other_values_the_results_of_this_one_are_the_last(project: Project) -> None:
    """What is pinned, explained and laid beside a baseline had been of the other values, beside outputs of these."""
    project.run(set={"stages.make.with.text": "c"})
    result = project.run()
    with Store.open(project.store) as store:
        last = {stage.stage: store.find_latest("text", stage.stage) for stage in result.stages}
    assert {name: action and action.key for name, action in last.items()} == {
        stage.stage: stage.key for stage in result.stages
    }
    assert project.run().repeats


def test_a_deleted_output_is_put_back_on_the_short_way(project: Project) -> None:
    out = project.store / "out" / "text"
    shutil.rmtree(out / "upper")
    (out / "count" / "text").unlink()
    assert project.run().repeats
    assert notices(project) == [
        Notice("info", f"upper: restored {out / 'upper'}"),
        Notice("info", f"count: restored {out / 'count'}"),
    ]
    assert (project.text("make"), project.text("upper"), project.text("count")) == ("a b", "A B!", "2")
    known = check.find_record(Request(project.store, project.folder / "pipeline.yaml", {}))
    assert known is not None
    assert known.in_place
    assert project.run().repeats
    assert notices(project) == []


def test_outputs_that_move_while_they_are_put_back_are_not_noted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (note,) = project.store.glob("index/run-*.json")
    before = note.read_bytes()
    shutil.rmtree(project.store / "out" / "text" / "upper")
    monkeypatch.setattr(Store, "take_snapshot", lambda *_: None)
    assert project.run().repeats
    assert project.text("upper") == "A B!"
    assert note.read_bytes() == before


@pytest.mark.parametrize("clock", [0, CLOCK], ids=["by times", "by names"])
def test_what_was_changed_by_hand_is_put_away_on_the_short_way(
    project: Project, monkeypatch: pytest.MonkeyPatch, clock: int
) -> None:
    monkeypatch.setattr(integrity_snapshot, "CLOCK", clock)
    remove_note(project)
    project.run()
    out = project.store / "out" / "text" / "upper"
    (out / "mine").write_text("added")
    assert project.run().repeats
    (warning, restored) = notices(project)
    assert warning.text.startswith("out/text/upper/mine is not part of its stored result; moved to quarantine as ")
    assert restored == Notice("info", f"upper: restored {out}")
    assert [path.name for path in out.iterdir()] == ["text"]


def test_an_object_that_is_damaged_or_gone_takes_the_whole_way(project: Project) -> None:
    for damage in (flip, Path.unlink):
        (damaged,) = (path for path in project.store.glob("objects/*/*") if path.read_bytes() == b"A B!")
        shutil.rmtree(project.store / "out" / "text" / "upper")
        damage(damaged)
        result = project.run()
        assert not result.repeats
        assert outcomes(result) == {"make": "cached", "upper": "built", "count": "cached"}
        assert describe_reasons(result["upper"].reasons) == (
            "its stored result is damaged: text is missing from the store",
        )
        assert project.text("upper") == "A B!"
        assert [
            f"object {damaged.parent.name}{damaged.name} was damaged" in notice.text for notice in notices(project)
        ] == ([True] if damage is flip else [])
        assert project.run().repeats


def test_nothing_is_noted_when_orun_itself_was_edited_meanwhile(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of its texts the run was of cannot be known."""
    code = tmp_path / "code" / "module.py"
    code.parent.mkdir()
    code.touch()
    monkeypatch.setattr(noop_record, "PACKAGE", code.parent)
    note = remove_note(project)

    def edit(event: Event) -> None:
        if isinstance(event, RunStarted):
            while code.stat().st_ctime <= event.started_at:
                os.utime(code, (0, 0))  # as tools do that restore times

    orun.run(project.folder / "pipeline.yaml", store=project.store, on_event=edit)
    assert not note.exists()
    project.run()
    assert note.exists()


def test_a_record_that_another_process_has_replaced_meanwhile_is_not_noted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = noop_record.write_record

    def replaced(request: Request, planner: Planner, done: Mapping[str, Done], *rest: Any) -> None:
        action = done["upper"].action
        Store.open(project.store).put_action(replace(action, started_at=action.started_at + 1))
        noted(request, planner, done, *rest)

    monkeypatch.setattr(noop_record, "write_record", replaced)
    project.edit("pipeline.yaml", "name: text", "name: text  # and a comment")
    project.run()
    monkeypatch.undo()
    assert not project.run().repeats
    assert project.run().repeats


@pytest.mark.parametrize(("name", "old", "new"), [("stages.py", '"!"', '"?"'), ("deep.py", "split()", "split('b')")])
def test_what_is_edited_after_it_was_decided_upon_is_not_noted(project: Project, name: str, old: str, new: str) -> None:
    remove_note(project)

    def edit(event: Event) -> None:
        if isinstance(event, StageFinished) and event.result.stage == "count":
            project.edit(name, old, new)

    orun.run(project.folder / "pipeline.yaml", store=project.store, on_event=edit)
    result = project.run()
    assert not result.repeats
    assert set(outcomes(result).values()) == {"built"}


@pytest.mark.parametrize("text", ["", "no baseline"])
def test_a_baseline_that_comes_after_the_gates_were_judged_is_not_noted(project: Project, text: str) -> None:
    note = remove_note(project)
    path = project.folder / "pipeline.baseline.json"

    def accept(event: Event) -> None:
        if isinstance(event, StageFinished) and event.result.stage == "count":
            write_file(path, Baseline("text", {}))
            path.write_text(text or path.read_text())

    assert orun.run(project.folder / "pipeline.yaml", store=project.store, on_event=accept).exit_code == 0
    assert not note.exists()


def test_what_moves_while_it_is_looked_at_is_not_noted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    note = remove_note(project)
    read = baselines.read

    def edit_and_read(pipeline: Pipeline) -> Baseline | None:
        project.edit("deep.py", "split()", "split( )")
        project.edit("deep.py", "split( )", "split()")
        return read(pipeline)

    monkeypatch.setattr(baselines, "read", edit_and_read)
    assert project.run().exit_code == 0
    assert not note.exists()


def test_what_is_edited_while_the_note_is_made_is_seen_by_the_next_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, one of a folder that a stage is told of, the settings: when all was found to be as decided upon."""
    (project.folder / "text/more").mkdir(parents=True)
    (project.folder / "text/more/file").write_text("a")
    (project.folder / "pyproject.toml").write_text("")
    project.edit("pipeline.yaml", "text: a b", "folder: text")
    project.edit("stages.py", 'text: str = "a b"', "folder: FilePath")
    project.edit("stages.py", "write_text(text)", 'write_text((context.root / folder / "more/file").read_text())')
    project.edit("stages.py", "len(text)", "1")
    project.edit("stages.py", "import Metric", "import FilePath, Metric")
    project.run()
    collect = Store.take_snapshot
    for name in ("pipeline.yaml", "text/more/file", "pyproject.toml"):
        path = project.folder / name

        def edit_and_collect(
            store: Store, pipeline: str, artifacts: Mapping[str, str], path: Path = path
        ) -> IntegritySnapshot | None:
            path.write_text(path.read_text() + "# b")
            return collect(store, pipeline, artifacts)

        for note in project.store.glob("index/run-*.json"):
            note.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "take_snapshot", edit_and_collect)
            assert set(outcomes(project.run()).values()) == {"cached"}
        assert not project.run().repeats, name
        assert project.run().repeats, name


def test_outputs_that_are_not_whole_are_not_noted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    note = remove_note(project)
    monkeypatch.setattr(Store, "take_snapshot", lambda *_: None)
    assert project.run().exit_code == 0
    assert not note.exists()


def test_a_file_that_changed_just_now_is_noted_by_its_content(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noop_record, "CLOCK", 3600 * 10**9)  # however slow this is
    note = remove_note(project)
    project.run()
    content = decode_checksummed(note.read_bytes())
    mine = [str(project.folder / name) for name in ("deep.py", "helper.py", "pipeline.yaml", "stages.py")]
    assert [path for path in content["contents"] if Path(path).suffix in {".py", ".yaml"}] == mine
    assert not set(content["read"]["files"]) & set(mine)
    assert project.run().repeats


def test_a_file_that_somebody_may_write_to_is_noted_by_its_content(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What he has mapped he changes without a trace."""
    held = str(project.folder / "deep.py")
    monkeypatch.setattr(stat_cache, "is_held_for_writing", lambda path: str(path) == held)
    monkeypatch.setattr(stat_cache, "CLOCK", -(10**9))  # all else was changed long ago
    monkeypatch.setattr(noop_record, "CLOCK", -(10**9))
    project.edit("pipeline.yaml", "text: a b", "text: a b c")
    project.run()
    noted = [decode_checksummed(note.read_bytes())["contents"] for note in project.store.glob("index/run-*.json")]
    assert [{Path(path).suffix for path in paths} & {".py", ".yaml"} for paths in noted] == [{".py"}]
    assert held in noted[0]
