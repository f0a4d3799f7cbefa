"""A store where case does not count in names, nothing has two of them, and every file is executable."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import PipelineError, StoreError
from orun.pipeline.problems import render
from orun.store import Store
from orun.store.pins import pin, pins, unpin
from tests.project import PIPELINE, Project, built
from tests.store.mounts import exfat, remount
from tests.store.support import add, content


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An exFAT."""
    with exfat(tmp_path) as disk:
        yield disk


@pytest.fixture
def store(disk: Path) -> Iterator[Store]:
    """A store on it."""
    with Store.open(disk / "store") as store:
        yield store


def project(disk: Path, text: str = PIPELINE) -> Project:
    """A project with its store on it."""
    return Project.make(disk / "project", text)


def test_the_same_files_are_the_same_artifact_as_elsewhere(store: Store, tmp_path: Path) -> None:
    files = {"model.onnx": b"model", "sub/data": b"data"}
    with Store.open(tmp_path / "store") as other:
        assert add(store, files) == add(other, files)


def test_a_file_is_not_taken_for_another_that_had_its_number_before(disk: Path, tmp_path: Path) -> None:
    names = [f"{number}" for number in range(20)]
    for name in names:
        (disk / name).write_text(name.rjust(2))
        os.utime(disk / name, (1_700_000_000, 1_700_000_000))
    right = {name: blake3(name.rjust(2).encode()).hexdigest() for name in names}
    with Store.open(tmp_path / "store") as store:
        assert {name: store.files.digest_file(disk / name) for name in names} == right
    remount(disk)
    with Store.open(tmp_path / "store") as store:
        assert {name: store.files.digest_file(disk / name) for name in reversed(names)} == right


def test_a_file_that_has_another_number_is_the_same(disk: Path, tmp_path: Path) -> None:
    path = disk / "data"
    path.write_text("1")
    with Store.open(tmp_path / "store") as store:
        seen = store.files.signature(path)
        assert seen
        now = (seen[0], seen[1] + 1, *seen[2:])
        assert store.files.is_same(path, seen, now)
        assert not store.files.is_same(path, seen, None)
        assert not store.files.is_same(path, seen, (*now[:2], seen[2] + 1, *seen[3:]))


def test_where_other_hosts_may_write_the_index_has_no_log_in_memory(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as other:
        for one, mode in ((store, "delete"), (other, "wal")):
            add(one, {"a": b"1"})
            one.flush()
            with sqlite3.connect(one.root / "index" / "1.sqlite") as database:
                assert database.execute("PRAGMA journal_mode").fetchone() == (mode,)
            database.close()


def test_pins_whose_names_differ_in_case_alone(store: Store) -> None:
    one, other = add(store, {"a": b"1"}), add(store, {"a": b"2"})
    pin(store, "Best", one)
    pin(store, "best", other)
    assert {each.name: each.tree for each in pins(store)} == {"Best": one, "best": other}
    unpin(store, "Best")
    pin(store, "best", one)
    assert {each.name: each.tree for each in pins(store)} == {"best": one}
    unpin(store, "best")
    assert pins(store) == ()


def test_an_artifact_with_names_that_differ_in_case_alone(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as other:
        tree = add(other, {"Config.json": b"1", "config.json": b"2"})
        subprocess.run(["cp", "-r", f"{other.root}/objects", str(store.root)], check=True)
    folder = store.make_session_folder("in") / "model"
    with pytest.raises(StoreError) as caught:
        store.materialize(tree, folder)
    assert caught.value.what == (
        f"an artifact cannot be placed: Config.json and config.json would be one file in {folder}"
    )
    assert caught.value.why == "its file system takes names that differ in case or accents alone for one"
    assert caught.value.hint == "Keep results where such names differ: --store DIR"


def test_stages_whose_names_differ_in_case_alone(disk: Path) -> None:
    made = project(disk, PIPELINE.replace("  upper:", "  Make: {uses: ./stages.py:upper, needs: make}\n  upper:"))
    with pytest.raises(PipelineError) as caught:
        made.run()
    (problem,) = caught.value.problems
    assert (
        render([problem])
        .splitlines()[0]
        .endswith(f": error: 'make' and 'Make' would share a folder: file names in {made.store} ignore case")
    )
    assert problem.hint == "give one of them another name, or keep results where it counts: --store DIR"


def test_the_output_of_a_stage_that_was_renamed_in_case_stays(disk: Path) -> None:
    made = project(disk)
    made.run()
    made.edit("pipeline.yaml", "  upper:", "  Upper:")
    made.edit("pipeline.yaml", "needs: upper", "needs: Upper")
    result = made.run()
    assert built(result) == []
    assert content(Path(result["Upper"].out)) == {"text": b"A B!"}
    assert [path.name.lower() for path in sorted((made.store / "out" / "text").iterdir())] == ["count", "make", "upper"]


def test_a_folder_there_as_a_remote(disk: Path) -> None:
    """Where nothing has two names, what is not there is put there in another way."""
    made, other = project(disk), disk / "elsewhere"
    url = f"file://{disk}/remote"
    made.run(remote=url)
    made.store = other
    result = made.run(remote=url)
    assert built(result) == []
    assert not [event for event in made.events if "remote" in str(event) and "cannot" in str(event)]
